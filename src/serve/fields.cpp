#include "serve/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "serve/reply.h"

namespace openwork::serve {
namespace {

constexpr size_t kShown = 60;  // bytes of a wrong value that an error repeats

std::string show(const nlohmann::json& value) {
  return printable(to_text(value), kShown);
}

// A whole number beyond int64 would turn negative when it is read as one.
bool is_whole(const nlohmann::json& value) {
  return value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{INT64_MAX}
                                    : value.is_number_integer();
}

}  // namespace

Fields::Fields(const nlohmann::json& body) : body_(body) {
  if (!body.is_object()) fail_input("not a JSON object: " + show(body), "request", "send {\"prompt\": ...}");
}

bool Fields::has(const char* key) const {
  const auto it = body_.find(key);
  return it != body_.end() && !it->is_null();
}

const nlohmann::json* Fields::find(const char* key) {
  asked_[key] = nullptr;
  return has(key) ? &body_.at(key) : nullptr;
}

void Fields::refuse(const std::string& key, const std::string& wanted) const {
  const auto it = body_.find(key);
  fail_input(it == body_.end() ? "nothing given" : show(*it), fmt::format("\"{}\" of the request", key),
             wanted);
}

std::string Fields::check_text(const std::string& key, const nlohmann::json& value) const {
  if (!value.is_string()) refuse(key, "give a text");
  const std::string& text = value.get_ref<const std::string&>();
  if (text.size() > kMostTextBytes) refuse(key, fmt::format("give at most {} bytes", kMostTextBytes));
  return text;
}

std::string Fields::text(const char* key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) refuse(key, "give a text");
  const std::string text = check_text(key, *value);
  asked_[key] = text;
  return text;
}

std::optional<std::string> Fields::optional_text(const char* key) {
  if (!has(key)) {
    asked_[key] = nullptr;
    return std::nullopt;
  }
  return text(key);
}

std::string Fields::choice(const char* key, const std::vector<std::string>& names) {
  const std::string chosen = optional_text(key).value_or(names.front());
  if (std::find(names.begin(), names.end(), chosen) == names.end())
    refuse(key, fmt::format("use one of {}", fmt::join(names, ", ")));
  asked_[key] = chosen;
  return chosen;
}

template <typename Number>
Number Fields::bounded(const char* key, Number fallback, Bounds<Number> bounds) {
  constexpr bool kWhole = std::is_integral_v<Number>;
  const nlohmann::json* value = find(key);
  asked_[key] = fallback;
  if (value == nullptr) return fallback;
  if (!(kWhole ? is_whole(*value) : value->is_number()) || value->get<Number>() < bounds.low ||
      value->get<Number>() > bounds.high)
    refuse(key,
           fmt::format("give a {}number from {} to {}", kWhole ? "whole " : "", bounds.low, bounds.high));
  asked_[key] = value->get<Number>();
  return value->get<Number>();
}

int64_t Fields::integer(const char* key, int64_t fallback, Bounds<int64_t> bounds) {
  return bounded(key, fallback, bounds);
}

double Fields::number(const char* key, double fallback, Bounds<double> bounds) {
  return bounded(key, fallback, bounds);
}

std::vector<std::string> Fields::texts(const char* key, size_t most) {
  const nlohmann::json* value = find(key);
  std::vector<std::string> list;
  if (value == nullptr) return list;
  if (!value->is_array() || value->size() > most)
    refuse(key, fmt::format("give a list of at most {} names", most));
  if (value->empty()) refuse(key, "name at least one, or leave it out");
  for (const nlohmann::json& entry : *value) list.push_back(check_text(key, entry));
  asked_[key] = list;
  return list;
}

std::map<std::string, std::vector<std::string>> Fields::lists(const char* key, size_t most) {
  const nlohmann::json* value = find(key);
  std::map<std::string, std::vector<std::string>> lists;
  if (value == nullptr) return lists;
  const std::string wanted = fmt::format("give {{\"NAME\": [at most {} names]}}", most);
  if (!value->is_object() || value->size() > most) refuse(key, wanted);
  for (const auto& [name, entries] : value->items()) {
    if (!entries.is_array() || entries.size() > most) refuse(key, wanted);
    for (const nlohmann::json& entry : entries) lists[name].push_back(check_text(key, entry));
  }
  asked_[key] = lists;
  return lists;
}

std::optional<std::string> Fields::position(const char* key) {
  if (has(key) && body_.at(key).is_number_integer()) return std::to_string(integer(key, 0, {0, INT32_MAX}));
  return optional_text(key);
}

std::string Fields::finish() const {
  for (const auto& [key, value] : body_.items()) {
    if (asked_.contains(key)) continue;
    std::vector<std::string> known;
    for (const auto& [name, unused] : asked_.items()) known.push_back(name);
    fail_input(fmt::format("unknown key \"{}\"", printable(key, kShown)), "request",
               fmt::format("use {}", fmt::join(known, ", ")));
  }
  return asked_.dump();
}

}  // namespace openwork::serve
