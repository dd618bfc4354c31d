#include "text/specification.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace openwork {
namespace {

using nlohmann::json;

const json* find_field(const json& specification, const std::string& field) {
  if (!specification.is_object()) return nullptr;
  const auto it = specification.find(field);
  return it == specification.end() || it->is_null() ? nullptr : &*it;
}

[[noreturn]] void refuse_field(const std::string& field, const std::string& wanted,
                               const std::string& where) {
  fail_input(fmt::format("\"{}\" is missing or is not {}", field, wanted), where, "check the tokenizer file");
}

}  // namespace

std::string read_type(const json& specification, const std::string& part, const std::string& where) {
  const json* type = find_field(specification, "type");
  if (type == nullptr || !type->is_string())
    fail_input(fmt::format("a {} has no \"type\"", part), where, "check the tokenizer file");
  return type->get<std::string>();
}

const json& read_list(const json& specification, const std::string& field, const std::string& where) {
  const json* list = find_field(specification, field);
  if (list == nullptr || !list->is_array()) refuse_field(field, "a list", where);
  return *list;
}

std::string read_text(const json& specification, const std::string& field, const std::string& where) {
  const json* text = find_field(specification, field);
  if (text == nullptr || !text->is_string()) refuse_field(field, "a string", where);
  return text->get<std::string>();
}

bool read_flag(const json& specification, const std::string& field, bool otherwise,
               const std::string& where) {
  const json* flag = find_field(specification, field);
  if (flag == nullptr) return otherwise;
  if (!flag->is_boolean()) refuse_field(field, "true or false", where);
  return flag->get<bool>();
}

Pattern read_pattern(const json& specification, const std::string& where) {
  const json* pattern = find_field(specification, "pattern");
  if (pattern != nullptr && find_field(*pattern, "Regex") != nullptr)
    return Pattern(read_text(*pattern, "Regex", where), where);
  if (pattern != nullptr && find_field(*pattern, "String") != nullptr)
    return Pattern::literal(read_text(*pattern, "String", where), where);
  refuse_field("pattern", "{\"Regex\": ...} or {\"String\": ...}", where);
}

}  // namespace openwork
