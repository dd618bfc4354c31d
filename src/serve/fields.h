// The fields of a request's JSON object: each is asked for once, with its default and its bounds; whatever was not
// asked for is refused at the end. Errors say the key, what was seen and what is wanted.
//   Fields fields(body);
//   request.prompt = fields.text("prompt");
//   request.top = fields.integer("top", 20, {1, 200});
//   std::string key = fields.finish();
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace openwork::serve {

inline constexpr size_t kMostTextBytes = 256 << 10;  // of one text in a request

template <typename Number>
struct Bounds {
  Number low, high;
};

class Fields {
 public:
  explicit Fields(const nlohmann::json& body);  // fails where it is no object

  bool has(const char* key) const;  // there, and not null
  std::string text(const char* key);
  std::optional<std::string> optional_text(const char* key);
  // One of `names`; the first where nothing is said.
  std::string choice(const char* key, const std::vector<std::string>& names);
  int64_t integer(const char* key, int64_t fallback, Bounds<int64_t> bounds);
  double number(const char* key, double fallback, Bounds<double> bounds);
  std::vector<std::string> texts(const char* key, size_t most);  // empty where absent, and only there
  std::map<std::string, std::vector<std::string>> lists(const char* key, size_t most);  // empty where absent
  std::optional<std::string> position(const char* key);  // a number or a word, as text

  // Fails where the object has more. Returns all that was asked for, defaults filled in: requests that mean the same
  // have the same.
  std::string finish() const;

 private:
  const nlohmann::json* find(const char* key);
  template <typename Number>
  Number bounded(const char* key, Number fallback, Bounds<Number> bounds);
  [[noreturn]] void refuse(const std::string& key, const std::string& wanted) const;
  std::string check_text(const std::string& key, const nlohmann::json& value) const;

  const nlohmann::json& body_;
  nlohmann::json asked_ = nlohmann::json::object();
};

}  // namespace openwork::serve
