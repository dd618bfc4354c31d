// Values of a template: JSON that may be part of a larger value without being copied, or undefined. Inside of the
// room: others use template.h.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/template.h"

namespace openwork::templates {

class Value {
 public:
  Value() = default;  // undefined
  explicit Value(TemplateJson json)
      : root_(std::make_shared<TemplateJson>(std::move(json))), at_(root_.get()) {}
  static Value view(const TemplateJson& json) { return Value(nullptr, &json); }   // of what outlives it
  Value part(const TemplateJson& inside) const { return Value(root_, &inside); }  // of what this one holds

  bool defined() const { return at_ != nullptr; }
  const TemplateJson& json() const { return *at_; }  // only where defined
  bool is_string() const { return at_ && at_->is_string(); }
  bool is_list() const { return at_ && at_->is_array(); }
  bool is_mapping() const { return at_ && at_->is_object(); }
  bool is_integer() const { return at_ && at_->is_number_integer(); }
  bool is_number() const { return at_ && at_->is_number(); }
  const std::string& text() const { return at_->get_ref<const std::string&>(); }
  int64_t integer() const { return at_->get<int64_t>(); }
  double number() const { return at_->get<double>(); }

  bool is_true() const;         // as Python's bool()
  std::string to_text() const;  // as Python's str(); undefined is empty
  bool equals(const Value& other) const;

 private:
  Value(std::shared_ptr<const TemplateJson> root, const TemplateJson* at) : root_(std::move(root)), at_(at) {}
  std::shared_ptr<const TemplateJson> root_;
  const TemplateJson* at_ = nullptr;
};

// As Python's json.dumps with ensure_ascii off; indent < 0: on one line.
std::string dump_json(const TemplateJson& json, int indent);

// How deep a value is (1: it holds nothing), and what it costs to copy or compare, in steps.
struct Extent {
  int depth = 1;
  size_t steps = 0;
};
Extent measure(const TemplateJson& json);

// The characters of a text, as UTF-8; bytes that are none stand alone.
std::vector<std::string_view> split_characters(std::string_view text);

std::string_view strip_text(std::string_view text, std::string_view characters, bool left, bool right);
inline constexpr std::string_view kWhitespace = " \t\n\r\f\v";

}  // namespace openwork::templates
