// What a Tokenizer is made of, and how its two descriptions are read. Inside of the room: others use
// tokenizer.h.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/byte_pairs.h"
#include "text/normaliser.h"
#include "text/pre_tokeniser.h"

namespace openwork {

struct TokenizerParts {
  TokenizerParts(std::string from, Normaliser normalise, PreTokeniser split, BytePairs merge)
      : origin(std::move(from)),
        normaliser(std::move(normalise)),
        pre_tokeniser(std::move(split)),
        pairs(std::move(merge)) {}

  std::string origin;  // the file, for messages
  Normaliser normaliser;
  PreTokeniser pre_tokeniser;
  BytePairs pairs;
  AddedTokenFinder raw_tokens, normalised_tokens;  // added tokens by where they are looked for
  std::vector<std::string> pieces;               // the bytes of each token, by id; empty where there is none
  std::vector<bool> special;                     // by id
  std::unordered_map<std::string, int32_t> ids;  // by written form
  std::vector<int32_t> prefix, suffix;           // what the tokenizer's template adds around a text
  std::optional<int32_t> beginning, end;         // as a configuration file or GGUF key names them
};

// Reads a whole tokenizer.json; fails with `origin` on anything that is wrong or not supported.
TokenizerParts read_tokenizer_json(const nlohmann::json& tokenizer, const std::string& origin);

// The same from a GGUF file's tokenizer.ggml.* keys, by way of the tokenizer.json that says the same.
TokenizerParts read_tokenizer_gguf(const nlohmann::json& metadata, const std::string& origin);
nlohmann::json tokenizer_json_of_gguf(const nlohmann::json& metadata, const std::string& origin);
// What the tokenizer_config.json beside it says: the beginning and end tokens and the chat template.
nlohmann::json tokenizer_config_of_gguf(const nlohmann::json& metadata, const std::string& origin);

// Bytes as text: each maximal ill-formed part becomes one U+FFFD, as the Unicode standard recommends.
std::string replace_invalid(std::string text);

// Whether a folder has GPT-2's old layout of a tokenizer.
bool has_vocabulary_and_merges(const std::filesystem::path& folder);

// The GGUF file that holds a model's tokenizer: the model itself, or the only .gguf of a folder without a
// tokenizer.json. Empty where there is none.
std::filesystem::path find_tokenizer_gguf(const std::filesystem::path& model);

// A tokenizer.json, a .gguf, or a folder with one (tokenizer.h says what a folder may hold).
TokenizerParts read_tokenizer_file(const std::filesystem::path& path);

}  // namespace openwork
