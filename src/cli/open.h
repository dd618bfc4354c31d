// From a MODEL argument to what a verb works with: the model on the chosen device, and (open_tokenizer.h) its
// tokenizer.
#pragma once
#include <string>
#include <vector>

#include "cli/common.h"
#include "cli/open_tokenizer.h"
#include "model/transformer.h"
#include "text/tokenizer.h"

namespace openwork {

at::Device choose_device(const CommonOptions& options);  // loads the GPU kernels where there is a GPU
at::ScalarType choose_dtype(const CommonOptions& options);

// Fails where one of several models is not on this machine: before the work on the others, not after it.
void check_models(const std::vector<std::string>& names);

Transformer open_model(const std::string& name, const CommonOptions& options, bool trainable = false);

// What stands before a text: the tokenizer's own prefix (auto), its beginning token (yes), nothing (no).
std::vector<int64_t> beginning_tokens(const Tokenizer& tokenizer, const CommonOptions& options);

// The token that ends documents: the one written <|endoftext|>, else the tokenizer's or the model's end token.
int32_t end_of_text(const Tokenizer& tokenizer, const ModelConfig& config);

}  // namespace openwork
