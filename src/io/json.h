// JSON text into nlohmann::json, strictly: well-formed UTF-8, at most kMaxJsonDepth levels, and one-line
// errors that say line and byte. Files as people have them (config.json, tokenizer.json, index files).
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace openwork {

inline constexpr size_t kMaxJsonDepth = 128;

// Two members of one object with the same name: Python's json keeps the last; where that would hide
// something (tensor names), refuse.
enum class DuplicateKeys { kLastWins, kRefuse };

inline constexpr std::string_view kFileAdvice = "correct the file or fetch it again";

// `origin` names the text in errors: a path, or what the text is part of; `advice` is what they say to do.
nlohmann::json parse_json(std::string_view text, std::string_view origin,
                          DuplicateKeys duplicates = DuplicateKeys::kLastWins,
                          std::string_view advice = kFileAdvice);

// What a library exception says, without the label in front: "key 'x' not found" of "[json.exception.out_of_range.403] key ...".
std::string_view without_label(std::string_view what);

nlohmann::json read_json_file(const std::filesystem::path& path);

}  // namespace openwork
