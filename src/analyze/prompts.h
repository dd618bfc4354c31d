// Prompts, as they were given and in one model's tokens.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "text/tokenizer.h"

namespace openwork {

// Texts, or where there are none, token ids.
struct GivenPrompts {
  std::vector<std::string> texts = {};
  std::vector<std::vector<int64_t>> ids = {};
  nlohmann::json description;  // for the protocol: file and hash, or the text
};

GivenPrompts give_text(const std::string& text);
GivenPrompts give_file(const std::string& file);  // a prompt per line, or JSONL; `sample`: the program's own
GivenPrompts give_tokens_file(const std::string& file);  // JSON [[id, ...], ...]

// Prompts in one model's tokens.
struct TokenPrompts {
  std::vector<std::vector<int64_t>> ids;
  std::optional<Tokenizer> tokenizer;  // absent when tokens were given and the model has no tokenizer
  std::vector<int64_t> beginning;      // tokens that stand before each text

  std::string piece(int64_t id) const;  // its text; empty where nobody knows it
  std::vector<std::string> pieces()
      const;  // texts (else numbers) of the one prompt's tokens; of several, none
};

// One text in a model's tokens, behind `beginning`; fails where encode_prompts does.
std::vector<int64_t> encode_prompt(const std::string& text, const Tokenizer& tokenizer,
                                   const std::vector<int64_t>& beginning, const ModelConfig& config);

// Texts need the tokenizer. Fails where a prompt is empty, longer than the model's context, or has tokens
// that the model has not.
TokenPrompts encode_prompts(const GivenPrompts& given, std::optional<Tokenizer> tokenizer,
                            std::vector<int64_t> beginning, const ModelConfig& config);

// All prompts as one batch [B, T]; fails when their lengths differ.
at::Tensor batch_of(const TokenPrompts& prompts, const at::Device& device);

}  // namespace openwork
