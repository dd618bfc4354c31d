#include "text/tokenizer.h"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

// Most text is ASCII, so eight bytes at a time are looked over for anything else.
size_t find_invalid(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (at + 8 <= text.size()) std::memcpy(&eight, text.data() + at, 8);
    if (at + 8 <= text.size() && (eight & 0x8080808080808080ull) == 0) {
      at += 8;
      continue;
    }
    const size_t length = utf8_length_at(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

}  // namespace

std::string replace_invalid(std::string text) {
  if (find_invalid(text) == std::string::npos) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (const size_t length = utf8_length_at(text, at); length > 0) {
      out.append(text, at, length);
      at += length;
      continue;
    }
    size_t bad = 1;  // a start that could still become a character takes its continuations with it
    while (at + bad < text.size() && bad < 4) {
      const std::string tried = text.substr(at, bad + 1) + std::string(3, '\x80');
      if (utf8_length_at(tried, 0) <= bad) break;
      ++bad;
    }
    out += "\xef\xbf\xbd";
    at += bad;
  }
  return out;
}

struct Tokenizer::State {
  // What one encoding thread works with; kept between calls for its cache of words.
  struct Scratch {
    MatchScratch match;
    MergeScratch merge;
    std::vector<TextPart> raw_parts, parts;
  };

  TokenizerParts parts;
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Scratch>> idle;

  explicit State(TokenizerParts from) : parts(std::move(from)) {}

  std::unique_ptr<Scratch> borrow() const {
    const std::scoped_lock lock(mutex);
    if (idle.empty()) return std::make_unique<Scratch>();
    auto scratch = std::move(idle.back());
    idle.pop_back();
    return scratch;
  }

  void give_back(std::unique_ptr<Scratch> scratch) const {
    const std::scoped_lock lock(mutex);
    idle.push_back(std::move(scratch));
  }

  void append_words(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const {
    parts.pre_tokeniser.for_each_word(text, scratch.match, [&](std::string_view word) {
      parts.pairs.append_tokens(word, scratch.merge, out);
    });
  }

  // Text without raw added tokens: normalised, then cut at the added tokens that are looked for there.
  void append_text(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const {
    std::string normalised;
    if (!parts.normaliser.is_identity()) {
      normalised = parts.normaliser.apply(text, scratch.match);
      text = normalised;
    }
    scratch.parts.clear();
    parts.normalised_tokens.split(text, scratch.match, scratch.parts);
    for (const TextPart& part : scratch.parts) {
      if (part.id >= 0) {
        out.push_back(part.id);
      } else {
        append_words(part.text, scratch, out);
      }
    }
  }

  std::optional<int32_t> first_of(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto it = parts.ids.find(name); it != parts.ids.end()) return it->second;
    return std::nullopt;
  }
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_json(const nlohmann::json& tokenizer, const std::string& origin) {
  return Tokenizer(std::make_unique<State>(read_tokenizer_json(tokenizer, origin)));
}

Tokenizer Tokenizer::from_gguf_metadata(const nlohmann::json& metadata, const std::string& origin) {
  return Tokenizer(std::make_unique<State>(read_tokenizer_gguf(metadata, origin)));
}

Tokenizer Tokenizer::from_file(const std::filesystem::path& path) {
  return Tokenizer(std::make_unique<State>(read_tokenizer_file(path)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  if (const size_t bad = find_invalid(text); bad != std::string_view::npos)
    fail_input(fmt::format("the text is not valid UTF-8 at byte {}", bad), "text to tokenize",
               "convert it to UTF-8");
  std::vector<int32_t> out;
  out.reserve(text.size() / 4 + 1);
  auto scratch = state_->borrow();
  scratch->raw_parts.clear();
  state_->parts.raw_tokens.split(text, scratch->match, scratch->raw_parts);
  for (const TextPart& part : scratch->raw_parts) {
    if (part.id >= 0) {
      out.push_back(part.id);
    } else {
      state_->append_text(part.text, *scratch, out);
    }
  }
  state_->give_back(std::move(scratch));
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids)
    if (!skip_special || !is_special(id)) bytes += piece(id);
  return replace_invalid(std::move(bytes));
}

const std::string& Tokenizer::piece(int32_t id) const {
  static const std::string kNone;
  return id < 0 || id >= size() ? kNone : state_->parts.pieces[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  const auto it = state_->parts.ids.find(std::string(token));
  if (it == state_->parts.ids.end()) return std::nullopt;
  return it->second;
}

int32_t Tokenizer::size() const {
  return static_cast<int32_t>(state_->parts.pieces.size());
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < size() && state_->parts.special[static_cast<size_t>(id)];
}

const std::vector<int32_t>& Tokenizer::prefix() const {
  return state_->parts.prefix;
}
const std::vector<int32_t>& Tokenizer::suffix() const {
  return state_->parts.suffix;
}

std::optional<int32_t> Tokenizer::beginning_id() const {
  if (!prefix().empty()) return prefix().front();
  if (state_->parts.beginning) return state_->parts.beginning;
  return state_->first_of({"<|begin_of_text|>", "<s>", "<bos>", kEndOfText});
}

std::optional<int32_t> Tokenizer::end_of_text_id() const {
  if (const auto written = state_->first_of({kEndOfText})) return written;
  if (state_->parts.end) return state_->parts.end;
  return state_->first_of({"<|end_of_text|>", "</s>", "<eos>"});
}

}  // namespace openwork
