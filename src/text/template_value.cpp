#include "text/template_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace openwork::templates {
namespace {

std::string number_text(const TemplateJson& json) {
  if (json.is_number_integer()) return fmt::format("{}", json.get<int64_t>());
  std::string text = fmt::format("{}", json.get<double>());
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string quote_python(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\\' || c == quote)
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out + quote;
}

std::string python_text(const TemplateJson& json, bool quoted) {
  if (json.is_null()) return "None";
  if (json.is_boolean()) return json.get<bool>() ? "True" : "False";
  if (json.is_number()) return number_text(json);
  if (json.is_string()) return quoted ? quote_python(json.get<std::string>()) : json.get<std::string>();
  std::string out;
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (!out.empty()) out += ", ";
    if (json.is_object()) out += quote_python(it.key()) + ": ";
    out += python_text(*it, true);
  }
  return json.is_object() ? "{" + out + "}" : "[" + out + "]";
}

void dump_into(std::string& out, const TemplateJson& json, int indent, int level) {
  if (!json.is_structured()) {
    out += json.is_number_float() ? number_text(json)
                                  : json.dump(-1, ' ', false, TemplateJson::error_handler_t::replace);
    return;
  }
  const auto new_line = [&](int depth) {
    if (indent >= 0) out += "\n" + std::string(static_cast<size_t>(indent * depth), ' ');
  };
  out += json.is_object() ? '{' : '[';
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (it != json.begin()) out += indent >= 0 ? "," : ", ";
    new_line(level + 1);
    if (json.is_object())
      out += TemplateJson(it.key()).dump(-1, ' ', false, TemplateJson::error_handler_t::replace) + ": ";
    dump_into(out, *it, indent, level + 1);
  }
  if (!json.empty()) new_line(level);
  out += json.is_object() ? '}' : ']';
}

}  // namespace

bool Value::is_true() const {
  if (!defined() || at_->is_null()) return false;
  if (at_->is_boolean()) return at_->get<bool>();
  if (at_->is_number()) return at_->get<double>() != 0;
  return at_->is_string() ? !text().empty() : !at_->empty();
}

std::string Value::to_text() const {
  return defined() ? python_text(*at_, false) : "";
}

bool Value::equals(const Value& other) const {
  if (!defined() || !other.defined()) return defined() == other.defined();
  return *at_ == *other.at_;
}

std::string dump_json(const TemplateJson& json, int indent) {
  std::string out;
  dump_into(out, json, indent, 0);
  return out;
}

Extent measure(const TemplateJson& json) {
  Extent extent;
  if (json.is_string()) extent.steps = json.get_ref<const std::string&>().size() / 64;
  if (!json.is_structured()) return extent;
  for (const TemplateJson& item : json) {
    const Extent inner = measure(item);
    extent.depth = std::max(extent.depth, inner.depth + 1);
    extent.steps += inner.steps + 1;
  }
  return extent;
}

std::vector<std::string_view> split_characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(1, utf8_length_at(text, at));
    characters.push_back(text.substr(at, length));
    at += length;
  }
  return characters;
}

std::string_view strip_text(std::string_view text, std::string_view characters, bool left, bool right) {
  if (left) text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
  if (right) text.remove_suffix(text.size() - (text.find_last_not_of(characters) + 1));
  return text;
}

}  // namespace openwork::templates
