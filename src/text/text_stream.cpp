#include "text/text_stream.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

// Whether more bytes could still make a character of text[at..end).
bool may_continue(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t wanted = lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
  if (lead >= 0xF5 || text.size() - at >= wanted) return false;
  // Fill up with the lowest and the highest byte that can follow: one of them makes it well-formed, or none.
  for (const char fill : {'\x80', '\xBF'}) {
    std::string whole(text.substr(at));
    whole.resize(wanted, fill);
    if (utf8_length_at(whole, 0) == wanted) return true;
  }
  return false;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops)
    : tokenizer_(tokenizer), stops_(std::move(stops)) {}

std::string TextStream::take_characters(bool all) {
  // Characters up to where a later byte may still belong.
  size_t end = bytes_.size();
  for (size_t back = 1; !all && back <= std::min<size_t>(3, bytes_.size()); ++back) {
    const size_t at = bytes_.size() - back;
    if ((static_cast<unsigned char>(bytes_[at]) & 0xC0) == 0x80) continue;
    if (may_continue(bytes_, at)) end = at;
    break;
  }
  std::string text = replace_invalid(bytes_.substr(0, end));
  bytes_.erase(0, end);
  return text;
}

std::string TextStream::release(bool all) {
  size_t stop = std::string::npos;
  for (const std::string& text : stops_) stop = std::min(stop, held_.find(text));
  if (stop != std::string::npos) {
    stopped_ = true;
    return held_.substr(0, stop);
  }
  size_t keep = 0;  // the longest end that begins a stop text
  for (const std::string& text : stops_) {
    for (size_t length = std::min(text.size() - 1, held_.size()); !all && length > keep; --length) {
      if (text.starts_with(std::string_view(held_).substr(held_.size() - length))) keep = length;
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string TextStream::push(int64_t id) {
  if (stopped_) return "";
  bytes_ += tokenizer_.piece(static_cast<int32_t>(id));
  held_ += take_characters(false);
  return release(false);
}

std::string TextStream::finish() {
  if (stopped_) return "";
  held_ += take_characters(true);
  return release(true);
}

}  // namespace openwork
