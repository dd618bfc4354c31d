#include "text/token_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFormat = "openwork.tokens";
constexpr const char* kShardAdvice = "make the shard again from its text";
constexpr uint64_t kMostBytes = uint64_t{1} << 40;  // of a document: more, or less than none, is no count

template <typename Number>
Number number_at(const TensorEntry& entry, size_t at) {
  Number value;
  std::memcpy(&value, entry.bytes.data() + at * sizeof(Number), sizeof(Number));
  return value;
}

// A shard's tensors, checked against each other.
class Shard {
 public:
  explicit Shard(const fs::path& path) : file_(open_weights(path)), name_(path.string()) {
    check_metadata();
    tokens_ = &vector_named("tokens", {DType::kU16, DType::kI32, DType::kU32});
    starts_ = &vector_named("document_starts", {DType::kI64});
    bytes_ = optional_vector("document_bytes", {DType::kI64});
    hashes_ = optional_vector("document_hashes", {DType::kU64, DType::kI64});
  }

  size_t documents() const { return static_cast<size_t>(starts_->element_count()); }
  const std::string& name() const { return name_; }

  int64_t end_of_text() const {
    const std::string text = text_of("end_of_text");
    int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      fail_input("its end_of_text is not a number", name_, kShardAdvice);
    return value;
  }

  int64_t token(size_t at) const {
    if (tokens_->dtype == DType::kU16) return number_at<uint16_t>(*tokens_, at);
    if (tokens_->dtype == DType::kI32) return number_at<int32_t>(*tokens_, at);
    return number_at<uint32_t>(*tokens_, at);
  }

  // Where document `at` starts; for the number of documents, where the last one ends.
  size_t start(size_t at) const {
    const int64_t all = tokens_->element_count();
    const int64_t value = at == documents() ? all : number_at<int64_t>(*starts_, at);
    if (value < 0 || value > all || (at == 0 && value != 0))
      fail_input(fmt::format("document {} starts at token {} of {}", at, value, all), name_, kShardAdvice);
    return static_cast<size_t>(value);
  }

  // Of what the shard says of its tokenizer; empty where it says nothing.
  std::string vocabulary() const { return text_of("vocabulary"); }
  std::string vocabulary_hash() const { return text_of("vocabulary_hash"); }
  bool has_bytes() const { return bytes_ != nullptr; }

  uint64_t bytes(size_t at) const { return bytes_ == nullptr ? 0 : number_at<uint64_t>(*bytes_, at); }
  bool has_hashes() const { return hashes_ != nullptr; }
  uint64_t hash(size_t at) const { return number_at<uint64_t>(*hashes_, at); }

 private:
  std::string text_of(const char* key) const {
    const auto& metadata = file_->metadata();
    const auto it = metadata.is_object() ? metadata.find(key) : metadata.end();
    return metadata.is_object() && it != metadata.end() && it->is_string() ? it->get<std::string>()
                                                                           : std::string();
  }

  void check_metadata() const {
    if (text_of("format") != kFormat)
      fail_input("this safetensors file holds no tokens", name_, "name text files or token shards as data");
    if (text_of("version") != "1")
      fail_input(fmt::format("token shard of version {}, not 1", printable(text_of("version"))), name_,
                 kShardAdvice);
  }

  const TensorEntry& vector_named(const char* name, std::initializer_list<DType> kinds) const {
    const TensorEntry& entry = file_->at(name);
    if (entry.shape.size() != 1 || std::find(kinds.begin(), kinds.end(), entry.dtype) == kinds.end())
      fail_input(fmt::format("{} has dtype {} and {} dimensions, not those of a token shard", name,
                             dtype_name(entry.dtype), entry.shape.size()),
                 name_, kShardAdvice);
    return entry;
  }

  const TensorEntry* optional_vector(const char* name, std::initializer_list<DType> kinds) const {
    if (file_->find(name) == nullptr) return nullptr;
    const TensorEntry& entry = vector_named(name, kinds);
    if (entry.element_count() != starts_->element_count())
      fail_input(fmt::format("{} has {} numbers for {} documents", name, entry.element_count(), documents()),
                 name_, kShardAdvice);
    return &entry;
  }

  std::unique_ptr<TensorFile> file_;
  std::string name_;
  const TensorEntry *tokens_ = nullptr, *starts_ = nullptr, *bytes_ = nullptr, *hashes_ = nullptr;
};

TokenDocument read_document(const Shard& shard, size_t at, int32_t vocabulary) {
  TokenDocument document;
  const size_t start = shard.start(at), end = shard.start(at + 1);
  if (end < start)
    fail_input(fmt::format("document {} ends before it starts", at), shard.name(), kShardAdvice);
  document.tokens.reserve(end - start);
  for (size_t i = start; i < end; ++i) {
    const int64_t token = shard.token(i);
    if (token < 0 || token >= vocabulary)
      fail_input(fmt::format("token {} is {}, but the tokenizer has {} tokens", i, token, vocabulary),
                 shard.name(), "use the tokenizer that the shard was made with");
    document.tokens.push_back(static_cast<int32_t>(token));
  }
  document.bytes = shard.bytes(at);
  if (document.bytes > kMostBytes)
    fail_input(fmt::format("document {} is said to have {} bytes", at, document.bytes), shard.name(),
               kShardAdvice);
  document.hash = shard.has_hashes() ? shard.hash(at)
                                     : hash_document({reinterpret_cast<const char*>(document.tokens.data()),
                                                      document.tokens.size() * sizeof(int32_t)});
  return document;
}

[[noreturn]] void refuse_tokenizer(const Shard& shard, std::string_view why) {
  fail_input(fmt::format("the shard was made with another tokenizer ({})", why), shard.name(),
             "use the tokenizer that the shard was made with, or make it again from its text");
}

// A shard that names no vocabulary still says how many bytes its documents had: where none of the first has the
// bytes of its tokens, the tokens are another tokenizer's. (A normaliser may change some.)
bool has_bytes_of_its_tokens(const Shard& shard, const Tokenizer& tokenizer) {
  constexpr size_t kSlack = 8;  // what a normaliser puts before a text
  const size_t looked_at = std::min<size_t>(shard.documents(), 16);
  for (size_t at = 0; at < looked_at; ++at) {
    const TokenDocument document = read_document(shard, at, tokenizer.size());
    size_t bytes = 0;
    for (size_t n = 0; n + 1 < document.tokens.size(); ++n)
      bytes += tokenizer.piece(document.tokens[n]).size();
    if (std::max(bytes, size_t{document.bytes}) - std::min(bytes, size_t{document.bytes}) <= kSlack)
      return true;
  }
  return looked_at == 0;
}

void check_tokenizer(const Shard& shard, const Tokenizer& tokenizer) {
  const std::string size = shard.vocabulary(), hash = shard.vocabulary_hash();
  if (!size.empty() && size != std::to_string(tokenizer.size()))
    refuse_tokenizer(
        shard, fmt::format("of {} tokens, where this one has {}", printable(size, 20), tokenizer.size()));
  if (!hash.empty() && hash != hash_vocabulary(tokenizer)) refuse_tokenizer(shard, "its tokens are others");
  if (hash.empty() && shard.has_bytes() && !has_bytes_of_its_tokens(shard, tokenizer))
    refuse_tokenizer(shard, "its documents have other lengths than their tokens");
}

}  // namespace

std::string hash_vocabulary(const Tokenizer& tokenizer) {
  std::string all;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string& piece = tokenizer.piece(id);
    all += fmt::format("{}:", piece.size());
    all += piece;
  }
  return fmt::format("{:016x}", hash_document(all));
}

bool is_token_shard(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  char start[9] = {};
  if (!file.read(start, sizeof start)) return false;
  uint64_t header = 0;
  std::memcpy(&header, start, sizeof header);
  return start[8] == '{' && header <= kMaxSafetensorsHeader;  // text has no such zero bytes
}

TokenShardWriter::TokenShardWriter(const Tokenizer& tokenizer, int32_t end_of_text)
    : end_of_text_(end_of_text),
      vocabulary_(tokenizer.size()),
      vocabulary_hash_(hash_vocabulary(tokenizer)) {}

void TokenShardWriter::add(const TokenDocument& document) {
  if (document.tokens.empty() || document.tokens.back() != end_of_text_)
    fail("a document does not end with the end-of-text token", "token shard", "report this as a bug");
  starts_.push_back(static_cast<int64_t>(narrow_.size() + wide_.size()));
  bytes_.push_back(static_cast<int64_t>(document.bytes));
  hashes_.push_back(document.hash);
  if (vocabulary_ <= 65536) {
    for (const int32_t token : document.tokens) narrow_.push_back(static_cast<uint16_t>(token));
  } else {
    wide_.insert(wide_.end(), document.tokens.begin(), document.tokens.end());
  }
}

void TokenShardWriter::write(const fs::path& path) const {
  const bool is_narrow = vocabulary_ <= 65536;
  const auto tokens = static_cast<int64_t>(is_narrow ? narrow_.size() : wide_.size());
  write_safetensors(path,
                    {{"tokens",
                      is_narrow ? DType::kU16 : DType::kI32,
                      {tokens},
                      is_narrow ? bytes_of(narrow_) : bytes_of(wide_)},
                     {"document_starts", DType::kI64, {documents()}, bytes_of(starts_)},
                     {"document_bytes", DType::kI64, {documents()}, bytes_of(bytes_)},
                     {"document_hashes", DType::kU64, {documents()}, bytes_of(hashes_)}},
                    {{"format", kFormat},
                     {"version", "1"},
                     {"end_of_text", std::to_string(end_of_text_)},
                     {"vocabulary", std::to_string(vocabulary_)},
                     {"vocabulary_hash", vocabulary_hash_}});
}

void write_token_shard(const fs::path& path, const std::vector<TokenDocument>& documents,
                       const Tokenizer& tokenizer, int32_t end_of_text) {
  TokenShardWriter writer(tokenizer, end_of_text);
  for (const TokenDocument& document : documents) writer.add(document);
  writer.write(path);
}

bool read_token_shard(const fs::path& path, const Tokenizer* tokenizer, int32_t end_of_text,
                      const std::function<bool(TokenDocument&&)>& visit) {
  const Shard shard(path);
  const int64_t end = shard.end_of_text();
  if (tokenizer && end != end_of_text)
    fail_input(fmt::format("the shard's end-of-text token is {}, the tokenizer's is {}", end, end_of_text),
               shard.name(), "use the tokenizer that the shard was made with");
  if (tokenizer) check_tokenizer(shard, *tokenizer);
  const int32_t vocabulary = tokenizer ? tokenizer->size() : std::numeric_limits<int32_t>::max();
  for (size_t at = 0; at < shard.documents(); ++at) {
    TokenDocument document = read_document(shard, at, vocabulary);
    if (document.tokens.empty() || document.tokens.back() != end)
      fail_input(fmt::format("document {} does not end with the end-of-text token", at), shard.name(),
                 kShardAdvice);
    if (!visit(std::move(document))) return false;
  }
  return true;
}

}  // namespace openwork
