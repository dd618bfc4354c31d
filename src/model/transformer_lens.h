// State dicts under TransformerLens names (blocks.0.attn.W_Q, ...), one matrix per head: read into the layout of
// the Hugging Face checkpoint. The published Sparse GPT-2 comes this way, its vocabulary padded to a multiple
// of 64, so the sizes that the file has win over config.json's vocab_size.
#pragma once
#include <set>
#include <string>

#include "model/architecture.h"
#include "model/weights.h"

namespace openwork {

bool is_transformer_lens(const TensorFile& file);
bool is_transformer_lens_buffer(const std::string& name);  // masks and the like: no weights

// Sets the vocabulary, whether the unembedding is the embedding, and whether it has a bias, by the file.
void adapt_to_transformer_lens(const TensorFile& file, ModelConfig& config);

// The parameter in the Hugging Face layout; adds the names it was read from to `used`.
Tensor read_transformer_lens(const WeightReader& reader, const ParameterSpec& spec, const ModelConfig& config,
                             std::set<std::string>& used);

}  // namespace openwork
