// Filters, tests, methods and functions of templates, by name.
#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "text/template_interpreter.h"

namespace openwork::templates {
namespace {

// Where a word of the filter `title` starts anew; of the method, behind whatever is no letter.
constexpr std::string_view kBetweenTitles = "- \t\n\r\f\v({[<";

// A letter that becomes several (ß) stays as it is. Bytes that are no character too.
std::string change_case(std::string_view text, std::string_view name, bool by_method) {
  std::string out;
  bool start = true;
  for (const std::string_view character : split_characters(text)) {
    utf8proc_int32_t c = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(character.data());
    if (utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(character.size()), &c) < 0) {
      out += character;
      continue;
    }
    const utf8proc_int32_t upper = utf8proc_toupper(c), lower = utf8proc_tolower(c);
    utf8proc_uint8_t changed[4];
    const bool raises = name == "upper" || (start && name != "lower");
    const utf8proc_ssize_t size = utf8proc_encode_char(raises ? upper : lower, changed);
    out.append(reinterpret_cast<const char*>(changed), static_cast<size_t>(size));
    if (name == "title")
      start = by_method ? upper == lower : kBetweenTitles.find(character) != std::string_view::npos;
    else
      start = false;
  }
  return out;
}

TemplateJson split_text(std::string_view text, const Value& by, int64_t most) {
  TemplateJson parts = TemplateJson::array();
  const bool blank = !by.is_string();
  if (blank) text = strip_text(text, kWhitespace, true, most < 0);
  while (!(blank && text.empty())) {
    const std::string_view sign = blank ? "" : std::string_view(by.text());
    const size_t at = most == 0 ? std::string_view::npos
                      : blank   ? text.find_first_of(kWhitespace)
                                : text.find(sign);
    parts.push_back(std::string(text.substr(0, at)));
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + std::max<size_t>(1, sign.size()));
    if (blank) text = strip_text(text, kWhitespace, true, false);
    --most;
  }
  return parts;
}

bool ends_or_starts(const std::string& text, const std::string& name, const TemplateJson& with) {
  const TemplateJson all = with.is_array() ? with : TemplateJson::array({with});
  return std::any_of(all.begin(), all.end(), [&](const TemplateJson& one) {
    return one.is_string() && (name == "startswith" ? text.starts_with(one.get<std::string>())
                                                    : text.ends_with(one.get<std::string>()));
  });
}

TemplateJson pairs_of(const TemplateJson& mapping) {
  TemplateJson pairs = TemplateJson::array();
  for (auto it = mapping.begin(); it != mapping.end(); ++it) pairs.push_back({it.key(), *it});
  return pairs;
}

bool is_case_name(const std::string& name) {
  return name == "upper" || name == "lower" || name == "title" || name == "capitalize";
}

}  // namespace

Value Interpreter::call_function(const std::string& name, const CallArguments& arguments) {
  if (const auto macro = macros_.find(name); macro != macros_.end())
    return call_macro(*macro->second, arguments);
  if (name == "namespace" || name == "dict") {
    TemplateJson fields = TemplateJson::object();
    if (!arguments.plain.empty() && arguments.plain[0].is_mapping()) fields = arguments.plain[0].json();
    for (const auto& [key, value] : arguments.named)
      fields[key] = value.defined() ? value.json() : TemplateJson();
    return make(std::move(fields));
  }
  if (name == "raise_exception")
    refuse(fmt::format("the template says: {}", printable(arguments.get(0, "message").to_text())));
  if (name != "range") refuse(fmt::format("the function '{}' is not known here", printable(name, 40)));
  int64_t bounds[3] = {0, 0, 1};
  for (size_t n = 0; n < arguments.plain.size(); ++n) {
    if (n > 2 || !arguments.plain[n].is_integer()) refuse("range wants one to three whole numbers");
    bounds[arguments.plain.size() == 1 ? 1 : n] = arguments.plain[n].integer();
  }
  const int64_t step = bounds[2];
  if (step == 0) refuse("range with step 0");
  TemplateJson list = TemplateJson::array();
  for (int64_t n = bounds[0]; step > 0 ? n < bounds[1] : n > bounds[1];) {
    list.push_back(n);
    if (list.size() > kTemplateItems) refuse(fmt::format("a list of more than {} items", kTemplateItems));
    if (__builtin_add_overflow(n, step, &n)) break;
  }
  return make(std::move(list));
}

Value Interpreter::call_method(const Value& of, const std::string& name, const CallArguments& arguments) {
  if (of.is_string()) return call_text_method(of.text(), name, arguments);
  if (of.is_mapping() && name == "get") {
    const Value found = get_item(of, arguments.get(0, "key"));
    return found.defined() ? found : arguments.plain.size() > 1 ? arguments.plain[1] : Value(TemplateJson());
  }
  if (of.is_mapping() && (name == "items" || name == "keys" || name == "values")) {
    TemplateJson list = TemplateJson::array();
    for (const TemplateJson& pair : pairs_of(of.json()))
      list.push_back(name == "items" ? pair : pair[name == "keys" ? 0 : 1]);
    return make(std::move(list));
  }
  refuse(fmt::format("the method '{}' is not known here", printable(name, 40)));
}

Value Interpreter::call_text_method(const std::string& text, const std::string& name,
                                    const CallArguments& arguments) {
  spend(text.size() / 64);
  const Value first = arguments.get(0, "");
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const std::string_view characters = first.is_string() ? std::string_view(first.text()) : kWhitespace;
    return make(std::string(strip_text(text, characters, name != "rstrip", name != "lstrip")));
  }
  if (name == "split") {
    const Value most = arguments.get(1, "maxsplit");
    if (first.is_string() && first.text().empty()) refuse("split by nothing");
    return make(split_text(text, first, most.is_integer() ? most.integer() : -1));
  }
  if (name == "splitlines")
    return make(split_text(strip_text(text, "\n", false, true), Value(TemplateJson("\n")), -1));
  if ((name == "startswith" || name == "endswith") && first.defined())
    return Value(TemplateJson(ends_or_starts(text, name, first.json())));
  if (name == "find") {
    const size_t at = first.is_string() ? text.find(first.text()) : std::string::npos;
    if (at == std::string::npos) return Value(TemplateJson(int64_t{-1}));
    return Value(TemplateJson(static_cast<int64_t>(split_characters(text.substr(0, at)).size())));
  }
  if (is_case_name(name)) return make(change_case(text, name, true));
  if (name == "replace" || name == "join") {
    if (name == "join") return apply_filter("join", first, {{Value(TemplateJson(text))}, {}});
    return apply_filter(name, Value(TemplateJson(text)), arguments);
  }
  refuse(fmt::format("the method '{}' is not known here", printable(name, 40)));
}

Value Interpreter::apply_filter(const std::string& name, const Value& value, const CallArguments& arguments) {
  if (name == "default" || name == "d") {
    const bool falsy_too = arguments.get(1, "boolean").is_true();
    if (falsy_too ? value.is_true() : value.defined()) return value;
    const Value otherwise = arguments.get(0, "default_value");
    return otherwise.defined() ? otherwise : Value(TemplateJson(""));
  }
  if (name == "tojson") {
    const Value indent = arguments.get(0, "indent");
    const int64_t wanted = indent.is_integer() ? std::clamp<int64_t>(indent.integer(), 0, 64) : -1;
    return make(dump_json(value.defined() ? value.json() : TemplateJson(), static_cast<int>(wanted)));
  }
  if (name == "length" || name == "count") {
    spend(value.is_string() ? value.text().size() / 64 : 0);
    if (value.is_string()) return Value(TemplateJson(split_characters(value.text()).size()));
    if (value.defined() && !value.json().is_structured()) refuse("the length of what has none");
    return Value(TemplateJson(value.defined() ? value.json().size() : size_t{0}));
  }
  if (name == "string" || name == "safe")
    return name == "safe" && value.is_string() ? value : make(value.to_text());
  if (name == "abs" && value.is_number())
    return value.number() < 0 ? calculate("-", Value(TemplateJson(0)), value) : value;
  if (name == "int") {
    if (value.is_number() && std::abs(value.number()) < 9e18)
      return Value(TemplateJson(value.is_integer() ? value.integer() : static_cast<int64_t>(value.number())));
    int64_t number = 0;
    const std::string text(strip_text(value.to_text(), kWhitespace, true, true));
    std::from_chars(text.data(), text.data() + text.size(), number);
    return Value(TemplateJson(number));
  }
  if (name == "items" || name == "dictsort") {
    if (!value.is_mapping()) refuse("items of what is no mapping");
    TemplateJson pairs = pairs_of(value.json());
    const auto key = [](const TemplateJson& pair) {
      return change_case(pair[0].get<std::string>(), "lower", false);
    };
    if (name == "dictsort") {
      std::stable_sort(pairs.begin(), pairs.end(),
                       [&](const TemplateJson& x, const TemplateJson& y) { return key(x) < key(y); });
    }
    return make(std::move(pairs));
  }
  if (name == "trim" || name == "replace" || is_case_name(name))
    return apply_text_filter(name, value, arguments);
  return apply_list_filter(name, value, arguments);
}

Value Interpreter::apply_text_filter(const std::string& name, const Value& value,
                                     const CallArguments& arguments) {
  const std::string text = value.to_text();
  spend(text.size() / 64);
  if (name == "trim") {
    const Value characters = arguments.get(0, "chars");
    return make(std::string(strip_text(
        text, characters.is_string() ? std::string_view(characters.text()) : kWhitespace, true, true)));
  }
  if (name != "replace") return make(change_case(text, name, false));
  const std::string from = arguments.get(0, "old").to_text(), to = arguments.get(1, "new").to_text();
  if (from.empty()) refuse("replace of nothing");
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t next = text.find(from, at);
    out.append(text, at, next - at);
    if (next == std::string::npos) break;
    out += to;
    at = next + from.size();
    if (out.size() > kTemplateBytes) refuse(fmt::format("a text of more than {} bytes", kTemplateBytes));
  }
  return make(std::move(out));
}

Value Interpreter::apply_list_filter(const std::string& name, const Value& value,
                                     const CallArguments& arguments) {
  // None has no items, as in Jinja's own select and map.
  const bool none = value.defined() && value.json().is_null();
  const std::vector<Value> items = none ? std::vector<Value>() : list_items(value);
  const auto json_of = [](const Value& item) { return item.defined() ? item.json() : TemplateJson(); };
  if (name == "first" || name == "last")
    return items.empty() ? Value() : name == "first" ? items.front() : items.back();
  if (name == "join") {
    std::string out;
    const std::string between = arguments.get(0, "d").to_text();
    for (size_t n = 0; n < items.size(); ++n) {
      out += (n ? between : "") + items[n].to_text();
      if (out.size() > kTemplateBytes) refuse(fmt::format("a text of more than {} bytes", kTemplateBytes));
    }
    return make(std::move(out));
  }
  TemplateJson list = TemplateJson::array();
  const bool picks = name == "select" || name == "reject",
             by_field = name == "selectattr" || name == "rejectattr";
  if (picks || by_field) {
    const size_t own = by_field ? 1 : 0;  // arguments before the test's name
    const Value test = arguments.get(own, "");
    CallArguments rest;
    for (size_t n = own + 1; n < arguments.plain.size(); ++n) rest.plain.push_back(arguments.plain[n]);
    for (const Value& item : items) {
      const Value looked_at = by_field ? get_item(item, arguments.get(0, "")) : item;
      const bool holds = test.is_string() ? apply_test(test.text(), looked_at, rest) : looked_at.is_true();
      if (holds == name.starts_with("select")) list.push_back(json_of(item));
    }
    return make(std::move(list));
  }
  if (name != "list" && name != "reverse" && name != "map")
    refuse(fmt::format("the filter '{}' is not known here", printable(name, 40)));
  const Value field = arguments.get(SIZE_MAX, "attribute"), filter = arguments.get(0, "filter");
  for (const Value& item : items) {
    Value made = item;
    if (name == "map")
      made = field.defined() ? get_item(item, field) : apply_filter(filter.to_text(), item, {});
    list.push_back(json_of(made));
  }
  if (name == "reverse") std::reverse(list.begin(), list.end());
  return make(std::move(list));
}

bool Interpreter::apply_test(const std::string& name, const Value& value, const CallArguments& arguments) {
  const Value other = arguments.get(0, "");
  if (name == "defined") return value.defined();
  if (name == "undefined") return !value.defined();
  if (name == "none") return value.defined() && value.json().is_null();
  if (name == "string") return value.is_string();
  if (name == "mapping") return value.is_mapping();
  if (name == "number") return value.is_number();
  if (name == "integer") return value.is_integer();
  if (name == "float") return value.is_number() && !value.is_integer();
  if (name == "boolean") return value.defined() && value.json().is_boolean();
  if (name == "true" || name == "false")
    return value.defined() && value.json() == TemplateJson(name == "true");
  if (name == "iterable" || name == "sequence")
    return value.is_list() || value.is_mapping() || value.is_string();
  if (name == "eq" || name == "equalto" || name == "sameas") return value.equals(other);
  if (name == "ne") return !value.equals(other);
  if (name == "in") return contains(other, value);
  if (name == "odd" || name == "even")
    return value.is_integer() && (value.integer() % 2 != 0) == (name == "odd");
  if (name == "divisibleby" && value.is_integer() && other.is_integer() && other.integer() != 0)
    return other.integer() == -1 || value.integer() % other.integer() == 0;
  refuse(fmt::format("the test '{}' is not known here", printable(name, 40)));
}

}  // namespace openwork::templates
