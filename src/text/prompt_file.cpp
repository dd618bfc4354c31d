#include "text/prompt_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "io/json.h"
#include "text/documents.h"
#include "text/packed_text.h"

namespace openwork {
namespace {

std::string read_json_prompt(std::string_view line, const std::string& where) {
  const nlohmann::json value = parse_json(line, where);
  for (const char* key : {"text", "prompt", "clean"}) {
    if (value.is_object() && value.contains(key) && value[key].is_string()) return value[key];
  }
  fail_input("a line without \"text\", \"prompt\" or \"clean\"", where,
             "write it like {\"text\": \"A prompt\"}");
}

}  // namespace

PromptFileLines read_prompt_file_lines(const std::filesystem::path& path) {
  std::string text = unpack_text(path);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // the byte-order mark of some editors
  if (const size_t bad = find_invalid_utf8(text); bad != std::string::npos) {
    fail_input(fmt::format("invalid UTF-8 at byte {}", bad), path.string(), "save the prompts as UTF-8");
  }
  PromptFileLines found{is_named_json_lines(path) || begins_with_object(text), {}};
  for (size_t start = 0, number = 1; start < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line(text.data() + start, end - start);
    if (line.ends_with('\r')) line.remove_suffix(1);
    start = end + 1;
    if (!line.empty())
      found.lines.push_back({std::string(line), fmt::format("{} line {}", path.string(), number)});
  }
  if (found.lines.empty()) fail_input("no prompts", path.string(), "write one prompt per line");
  return found;
}

std::vector<std::string> read_prompt_file(const std::filesystem::path& path) {
  const PromptFileLines found = read_prompt_file_lines(path);
  std::vector<std::string> prompts;
  for (const auto& [text, where] : found.lines)
    prompts.push_back(found.json ? read_json_prompt(text, where) : text);
  return prompts;
}

}  // namespace openwork
