// What a model costs to run: heads and weights it has, tokens per second of a prompt and of generation behind it.
// Speeds are of this machine and moment: they are there to be set beside those of other models of the same run.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/transformer.h"

namespace openwork {

struct ModelCost {
  int64_t heads = 0, kept_heads = 0;  // of all layers: by the configuration, and after pruning
  int64_t parameters = 0;
  double weight_megabytes = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0;
  double prompt_speed = 0,
         generation_speed = 0;  // tokens per second, the best round; 0 where nothing could be run
};

// On `ids` [1, T], cut to leave room for some tokens more in the model's context.
ModelCost measure_cost(const Transformer& model, const Tensor& ids);

}  // namespace openwork
