// Head against head: the attention weights of a few heads at every causal pair of tokens, and how alike they
// are. Over several prompts the weights are their mean.
//   HeadScatter scatter = scatter_heads(model, ids, find_sharpest(model, ids));
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/heads/head_records.h"
#include "analyze/heads/patterns.h"

namespace openwork {

struct HeadScatter {
  std::string name;  // of the model; the caller's to give
  bool gated = false;
  int64_t prompts = 0, tokens = 0;
  std::vector<HeadPlace> places;
  std::vector<std::vector<float>> values;              // [head][pair], pairs row by row
  std::vector<std::vector<double>> pearson, spearman;  // [head][head]; NaN where a head is constant
};

// ids [prompts, tokens]; all places must be the model's.
HeadScatter scatter_heads(const Transformer& model, const Tensor& ids, const std::vector<HeadPlace>& places);
void check_scatter(size_t heads, int64_t tokens);  // fails where there is nothing to compare

// The heads that look most sharply at some token behind the first: those a reader would ask about. In the
// order of the model.
std::vector<HeadPlace> find_sharpest(const Transformer& model, const Tensor& ids, size_t count = 6);

// A leading head of each kind that people ask about (induction, previous token, duplicate, self, sink), in the
// order of the model.
std::vector<HeadPlace> find_leading(const ModelStatistics& statistics);

}  // namespace openwork
