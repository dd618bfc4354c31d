// From a MODEL argument to what a verb works with: the model on the chosen device, its tokenizer, and the
// prompts the options give.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/common.h"
#include "model/transformer.h"
#include "text/tokenizer.h"

namespace openwork {

at::Device choose_device(const CommonOptions& options);  // loads the GPU kernels where there is a GPU
at::ScalarType choose_dtype(const CommonOptions& options);

// Fails where one of several models is not on this machine: before the work on the others, not after it.
void check_models(const std::vector<std::string>& names);

Transformer open_model(const std::string& name, const CommonOptions& options, bool trainable = false);

// The model's own tokenizer; the published Sparse GPT-2 has none and takes GPT-2's out of the cache.
Tokenizer open_tokenizer(const std::string& name);

// What stands before a text: the tokenizer's own prefix (auto), its beginning token (yes), nothing (no).
std::vector<int64_t> beginning_tokens(const Tokenizer& tokenizer, const CommonOptions& options);

// The token that ends documents: the one written <|endoftext|>, else the tokenizer's or the model's end token.
int32_t end_of_text(const Tokenizer& tokenizer, const ModelConfig& config);

// Prompts as tokens, from one of: a text, --tokens 1,2,3, --tokens-file F.json ([[...], ...]).
struct PromptOptions {
  std::string text, tokens, tokens_file;
  bool has_text = false;
};
struct Prompts {
  std::vector<std::vector<int64_t>> ids;
  std::optional<Tokenizer> tokenizer;  // absent when tokens were given and the model has no tokenizer
};
Prompts read_prompts(const std::string& model, const PromptOptions& prompt, const CommonOptions& options,
                     const ModelConfig& config);

// All prompts as one batch [B, T]; fails when their lengths differ.
at::Tensor batch_of(const Prompts& prompts, const at::Device& device);

}  // namespace openwork
