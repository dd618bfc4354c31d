// A byte-level BPE tokenizer learned from text, as GPT-2's was: words by its pattern, 256 bytes, merges of
// the most frequent pairs, and <|endoftext|> as token 0. Written as a tokenizer.json that Hugging Face's
// tokenizers load to the same ids, and that their own BPE trainer would give for the same words.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace openwork {

struct TokenizerTraining {
  std::vector<std::filesystem::path> files;  // what for_each_document reads
  int64_t size = 8192;                       // tokens, <|endoftext|> and the 256 bytes among them
  std::function<bool(std::string_view)>
      leaves_out;                           // documents not to learn from, the held-out ones; or null
  uint64_t most_bytes = uint64_t{1} << 31;  // of text read; words repeat, and more changes little
};

inline constexpr int64_t kSmallestVocabulary = 257;

// The tokenizer.json, tokens in the order of their ids. Smaller than asked where the text has no more pairs.
// Fails where size is below kSmallestVocabulary or there is no text.
nlohmann::ordered_json train_tokenizer(const TokenizerTraining& training);

}  // namespace openwork
