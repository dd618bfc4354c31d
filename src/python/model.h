// A model for Python: the transformer, its tokenizer, and passes that read and replace named activations.
#pragma once
#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/transformer.h"
#include "shell/common.h"
#include "text/tokenizer.h"

namespace openwork {

class CoreModel {
 public:
  // `device`, `dtype` and `bos` as the program's common options have them.
  CoreModel(const std::string& name, const std::string& device, const std::string& dtype,
            const std::string& bos);

  const std::string& name() const { return name_; }
  const Transformer& transformer() const { return model_; }

  std::vector<int64_t> encode(const std::string& text);              // checked, behind what `bos` says
  std::vector<std::string> pieces(const std::vector<int64_t>& ids);  // their texts, or numbers
  std::string decode(const std::vector<int64_t>& ids);

  using Replacement = std::pair<std::string, nanobind::callable>;
  using Activations = std::vector<std::pair<std::string, at::Tensor>>;
  // Logits [B, T, V] (with last_only [B, 1, V]) and the activations named in `read`, after replacements.
  std::pair<at::Tensor, Activations> run(const std::vector<std::vector<int64_t>>& ids,
                                         const std::vector<std::string>& read,
                                         const std::vector<Replacement>& replace, bool last_only) const;
  std::vector<int64_t> generate(const std::vector<int64_t>& ids, int64_t tokens, double temperature,
                                int64_t top_k, uint64_t seed) const;

  std::vector<std::string> activation_names() const;  // of every site; an architecture may lack some
  std::string config() const;                         // config.json's text, as a saved model has it
  Activations parameters() const;                     // by their Hugging Face names; not to be written to

 private:
  const Tokenizer& tokenizer();  // opened when it is first wanted: a model without one runs on tokens

  std::string name_;
  CommonOptions options_;
  Transformer model_;
  std::optional<Tokenizer> tokenizer_;
};

}  // namespace openwork
