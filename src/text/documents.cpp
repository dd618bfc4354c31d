#include "text/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/philox.h"
#include "base/utf8.h"
#include "io/json.h"
#include "text/byte_source.h"
#include "text/token_shard.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using Visit = std::function<bool(std::string_view)>;
constexpr size_t kLongestDocument = size_t{1} << 30;   // a small archive may unpack to any length
constexpr size_t kLongestFirstLine = size_t{1} << 24;  // a longer one is taken for text, not for JSONL

// A text that grows at its end as the source is read and shrinks at its front as it is used.
class Window {
 public:
  explicit Window(const fs::path& path) : source_(open_byte_source(path)) { refuse_false_ending(path); }

  std::string_view text() const { return std::string_view(buffer_).substr(front_); }
  uint64_t position() const { return position_; }  // of text()'s first byte in the unpacked file

  bool grow() {  // false at the end
    if (front_ > buffer_.size() / 2) {
      buffer_.erase(0, front_);
      front_ = 0;
    }
    const size_t size = buffer_.size();
    buffer_.resize(size + kReadAtOnce);
    const size_t count = source_->read(buffer_.data() + size, kReadAtOnce);
    buffer_.resize(size + count);
    return count > 0;
  }

  void drop(size_t count) {
    front_ += count;
    position_ += count;
  }

  // Bytes up to `marker`, growing as needed; npos where the rest of the file does not hold it.
  size_t find(std::string_view marker, size_t limit = std::string_view::npos) {
    size_t from = 0;
    while (true) {
      const size_t at = text().find(marker, from);
      if (at != std::string_view::npos) return at;
      if (text().size() > limit) return std::string_view::npos;
      from = text().size() >= marker.size() ? text().size() - marker.size() + 1 : 0;  // it may cross the seam
      if (!grow()) return std::string_view::npos;
    }
  }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;
  size_t front_ = 0;
  uint64_t position_ = 0;
};

void check_utf8(std::string_view text, uint64_t position, const fs::path& path) {
  const size_t bad = find_invalid_utf8(text);
  if (bad != std::string_view::npos)
    fail_input(fmt::format("the text is not valid UTF-8 at byte {}", position + bad), path.string(),
               "convert it to UTF-8");
}

// Visits each stretch between separators: false when visit asked to stop.
template <typename VisitPart>
bool for_each_part(Window& window, std::string_view separator, const fs::path& path,
                   const VisitPart& visit_part) {
  while (true) {
    const size_t end = window.find(separator, kLongestDocument);
    const bool last = end == std::string_view::npos;
    if (last && window.text().size() > kLongestDocument)
      fail_input("a document is longer than 1 GiB", path.string(), "part documents by <|endoftext|>");
    const std::string_view part = window.text().substr(0, end);
    if (!visit_part(part)) return false;
    if (last) return true;
    window.drop(part.size() + separator.size());
  }
}

bool read_text(Window& window, const fs::path& path, const Visit& visit) {
  return for_each_part(window, kDocumentEnd, path, [&](std::string_view document) {
    check_utf8(document, window.position(), path);
    return document.empty() || visit(document);
  });
}

bool read_json_lines(Window& window, const fs::path& path, const Visit& visit) {
  uint64_t number = 0;
  return for_each_part(window, "\n", path, [&](std::string_view line) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return true;
    const std::string where = fmt::format("{} line {}", path.string(), number);
    const nlohmann::json value = parse_json(line, where);
    const auto text = value.is_object() ? value.find("text") : value.end();
    if (!value.is_object() || text == value.end() || !text->is_string())
      fail_input("the line is not a JSON object with a \"text\" string", where,
                 "write one document per line: {\"text\": \"...\"}");
    const auto& document = text->get_ref<const std::string&>();
    return document.empty() || visit(document);
  });
}

void read_first_line(Window& window) {
  if (window.text().empty()) window.grow();
  if (window.text().starts_with('{')) window.find("\n", kLongestFirstLine);
}

}  // namespace

bool is_named_json_lines(fs::path path) {
  if (path.extension() == ".xz" || path.extension() == ".zst") path.replace_extension();
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

bool begins_with_object(std::string_view text) {
  return text.starts_with('{') &&
         nlohmann::json::accept(text.substr(0, std::min(text.find('\n'), kLongestFirstLine)));
}

void for_each_document(const std::vector<fs::path>& files, const Visit& visit) {
  for (const fs::path& path : files) {
    if (is_token_shard(path))
      fail_input("this is a token shard, which holds no text", path.string(),
                 "name the text it was made from");
    Window window(path);
    read_first_line(window);
    const bool lines = is_named_json_lines(path) || begins_with_object(window.text());
    if (!(lines ? read_json_lines(window, path, visit) : read_text(window, path, visit))) return;
  }
}

uint64_t hash_document(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ull;
  return mix_seed(hash, 0);
}

}  // namespace openwork
