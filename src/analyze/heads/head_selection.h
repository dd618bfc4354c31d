// Which heads a figure shows, as people write it: --layers even|odd|all|0-7|0,2,5, --heads 0-15 (numbers
// within each layer) or L0H1,L5H5 (heads by name), or as many as a page has room for.
#pragma once
#include <string>
#include <vector>

#include "base/head_place.h"
#include "model/config.h"

namespace openwork {

// "0-7", "0,2,4-6", "even", "odd" or "all" as numbers below `count`, each once, in the order given. Bad input
// where a number is not below it; `option` names it in the error.
std::vector<int64_t> parse_number_list(const std::string& text, int64_t count, const std::string& option);

// "L0H1,L5H5" as heads of the model, each once, in the order given.
std::vector<HeadPlace> parse_head_names(const std::string& text, const ModelConfig& config,
                                        const std::string& option);

// Layers and heads together; an empty text means all. Head names leave `layers` empty.
std::vector<HeadPlace> select_heads(const std::string& layers, const std::string& heads,
                                    const ModelConfig& config);

inline constexpr int64_t kLargeModel = 512, kSampledHeads = 16;

// A model with more heads than one figure shows well.
inline bool is_large(int64_t layers, int64_t heads) {
  return layers * heads > kLargeModel;
}

// The same, but where nothing is said, a large dense model's even layers and first 16 heads. Of a gated model,
// whose open heads are few, all.
std::vector<HeadPlace> sample_heads(const std::string& layers, const std::string& heads,
                                    const ModelConfig& config);

// Every head of evenly spaced layers, from the first on, at most `most_heads` of them (one layer at least).
std::vector<HeadPlace> whole_layers(const ModelConfig& config, int64_t most_heads);

}  // namespace openwork
