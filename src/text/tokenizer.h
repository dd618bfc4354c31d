// Byte-level BPE tokenizers exactly as their tokenizer.json (or GGUF metadata) says: normaliser, added and
// special tokens, pre-tokeniser, merges, decoder; the same ids as Hugging Face's tokenizers package gives.
//   Tokenizer t = Tokenizer::from_file("models/openwork-8m");    // folder, tokenizer.json or .gguf
//   std::vector<int32_t> ids = t.encode("Hello world");
// encode parses special tokens that stand in the text and adds none of its own; prefix() and suffix() are
// what the tokenizer's own template would add around a text. Thread-safe once built.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace openwork {

class Tokenizer {
 public:
  // A folder holds tokenizer.json, or vocab.json and merges.txt (GPT-2's old layout), or one .gguf; its
  // tokenizer_config.json and config.json name the beginning and end tokens. Fails on a tokenizer that is not
  // byte-level BPE or has a part that is not known, naming it.
  static Tokenizer from_file(const std::filesystem::path& path);
  static Tokenizer from_json(const nlohmann::json& tokenizer, const std::string& origin);
  static Tokenizer from_gguf_metadata(const nlohmann::json& metadata, const std::string& origin);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  std::vector<int32_t> encode(std::string_view text) const;  // fails on invalid UTF-8, naming the byte
  // Bytes that make no character become U+FFFD. Ids without a token (a model's padding) are left out.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;
  // The bytes of one token, perhaps part of a character; empty for an id without a token.
  const std::string& piece(int32_t id) const;

  std::optional<int32_t> id_of(
      std::string_view token) const;  // as the vocabulary writes it; added tokens too
  int32_t size() const;               // ids are 0 .. size()-1
  bool is_special(int32_t id) const;

  const std::vector<int32_t>& prefix() const;   // what the tokenizer itself puts before a text (often empty)
  const std::vector<int32_t>& suffix() const;   // and after it
  std::optional<int32_t> beginning_id() const;  // its beginning-of-text token; GPT-2's is its end of text
  std::optional<int32_t> end_of_text_id() const;  // the token written <|endoftext|>, else its end token

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace openwork
