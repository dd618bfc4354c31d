// From a MODEL argument to what a verb works with: the model on the chosen device, and (open_tokenizer.h) its
// tokenizer.
#pragma once
#include <string>
#include <vector>

#include "model/transformer.h"
#include "shell/common.h"
#include "shell/open_tokenizer.h"
#include "text/tokenizer.h"

namespace openwork {

at::Device choose_device(const CommonOptions& options);  // loads the GPU kernels where there is a GPU
at::ScalarType choose_dtype(const CommonOptions& options);

// Fails where one of several models is not on this machine: before the work on the others, not after it. Where an
// option gives the prompts, `prompts_by` is its name: the last of several may be a prompt beside it, which is then said.
void check_models(const std::vector<std::string>& names, const std::string& prompts_by = "");

// What a model's configuration says, without its weights: for checks before any work.
ModelConfig read_config_of(const std::string& name);

// While it lives, open_model gives out `model` under its name (on its device, in its dtype, not to be trained)
// rather than reading it again. A host keeps its models open; the program has no use for it.
class LentModel {
 public:
  LentModel(std::string name, const Transformer& model);
  ~LentModel();
  LentModel(const LentModel&) = delete;
  LentModel& operator=(const LentModel&) = delete;

 private:
  std::string name_;
};

Transformer open_model(const std::string& name, const CommonOptions& options, bool trainable = false);

// What stands before a text: the tokenizer's own prefix (auto), its beginning token (yes), nothing (no).
std::vector<int64_t> beginning_tokens(const Tokenizer& tokenizer, const CommonOptions& options);

// The token that ends documents: the one written <|endoftext|>, else the tokenizer's or the model's end token.
int32_t end_of_text(const Tokenizer& tokenizer, const ModelConfig& config);

}  // namespace openwork
