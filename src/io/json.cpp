#include "io/json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "io/mapped_file.h"

namespace openwork {
namespace {

using nlohmann::json;

constexpr size_t kMaxJsonFile = size_t{128} << 20;  // the largest tokenizer.json is a quarter of it

// "line 3, byte 41"; both count from 1.
std::string describe_place(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  return fmt::format("line {}, byte {}", 1 + std::count(before.begin(), before.end(), '\n'), byte);
}

// The parser's message without its own place and without the text it last read (which may be huge).
std::string shorten(std::string_view message) {
  if (const size_t dash = message.find(" - "); dash != std::string_view::npos)
    message.remove_prefix(dash + 3);
  message = message.substr(0, message.find("; last read"));
  std::string out(message);
  std::replace(out.begin(), out.end(), ';', ',');
  return out;
}

// Builds the value from the parser's events. nlohmann's own builder knows neither a depth limit nor
// duplicate names.
class Builder {
 public:
  Builder(std::string_view text, std::string_view origin, DuplicateKeys duplicates, std::string_view advice)
      : text_(text), origin_(origin), advice_(advice), duplicates_(duplicates) {}

  json take() { return std::move(root_); }

  bool null() { return place(nullptr); }
  bool boolean(bool value) { return place(value); }
  bool number_integer(int64_t value) { return place(value); }
  bool number_unsigned(uint64_t value) { return place(value); }
  bool number_float(double value, const std::string&) { return place(value); }
  bool string(std::string& value) { return place(std::move(value)); }
  bool binary(json::binary_t&) { return false; }  // never comes from text

  bool start_object(size_t) { return open(json::object()); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(json::array()); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    json& object = *open_.back();
    if (duplicates_ == DuplicateKeys::kRefuse && object.contains(name)) {
      fail_input(fmt::format("the name '{}' stands twice in one JSON object", printable(name, 100)), origin_,
                 advice_);
    }
    slot_ = &object[name];
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception& error) {
    fail_input(
        fmt::format("not valid JSON at {}: {}", describe_place(text_, position), shorten(error.what())),
        origin_, advice_);
  }

 private:
  bool place(json value) {
    put(std::move(value));
    return true;
  }

  json* put(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool open(json value) {
    if (open_.size() >= kMaxJsonDepth) {
      fail_input(fmt::format("JSON nested more than {} levels deep", kMaxJsonDepth), origin_, advice_);
    }
    open_.push_back(put(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_, origin_, advice_;
  DuplicateKeys duplicates_;
  json root_;
  std::vector<json*> open_;  // arrays and objects not yet closed; a parent does not grow meanwhile
  json* slot_ = nullptr;     // where the value of the last key goes
};

}  // namespace

json parse_json(std::string_view text, std::string_view origin, DuplicateKeys duplicates,
                std::string_view advice) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    fail_input(fmt::format("invalid UTF-8 at {}", describe_place(text, bad + 1)), origin, advice);
  }
  Builder builder(text, origin, duplicates, advice);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string_view without_label(std::string_view what) {
  const size_t end = what.starts_with("[json.exception.") ? what.find("] ") : std::string_view::npos;
  return end == std::string_view::npos ? what : what.substr(end + 2);
}

json read_json_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxJsonFile) {
    fail_input(fmt::format("{} bytes of JSON, more than {}", file.bytes().size(), kMaxJsonFile),
               path.string(), kFileAdvice);
  }
  return parse_json(file.text(), path.string());
}

}  // namespace openwork
