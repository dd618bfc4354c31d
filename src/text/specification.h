// Fields of a tokenizer.json part, read with their errors: each fails naming the field and `where` (the
// file).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/pattern.h"

namespace openwork {

// The "type" of a part such as a normalizer; `part` is its name for messages.
std::string read_type(const nlohmann::json& specification, const std::string& part, const std::string& where);

const nlohmann::json& read_list(const nlohmann::json& specification, const std::string& field,
                                const std::string& where);
std::string read_text(const nlohmann::json& specification, const std::string& field,
                      const std::string& where);

// A true or false; `otherwise` where the field is missing or null.
bool read_flag(const nlohmann::json& specification, const std::string& field, bool otherwise,
               const std::string& where);

// The "pattern": {"Regex": ...} or {"String": ...} of a Split or Replace.
Pattern read_pattern(const nlohmann::json& specification, const std::string& where);

}  // namespace openwork
