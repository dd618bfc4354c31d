// What a model would say next: the logits after a prompt, and the most likely tokens with their probabilities.
//   std::vector<NextToken> table = likely_tokens(next_logits(model, ids), 10);
#pragma once
#include <cstdint>
#include <vector>

#include "model/transformer.h"

namespace openwork {

struct NextToken {
  int64_t id = 0;
  double logit = 0, probability = 0;
};

// Behind the last of `ids`: [V], double, on the CPU. `options` may carry taps.
Tensor next_logits(const Transformer& model, const std::vector<int64_t>& ids, ForwardOptions options = {});

// Of logits [V]: at most `most` tokens, the most likely first.
std::vector<NextToken> likely_tokens(const Tensor& logits, int64_t most);

// These tokens by other logits [V], in the same order: what became of them.
std::vector<NextToken> find_tokens(const Tensor& logits, const std::vector<NextToken>& tokens);

}  // namespace openwork
