// Generation with the key/value cache: prompts in, their continuations token by token. Several prompts run in one
// batch whatever their lengths: all rows stand at the same position, and a longer prompt is still being read while
// a shorter one is continued, so that there is no padding, and every prompt gets the tokens it gets alone.
//   generate_all(model, prompts, options, [&](size_t n, int64_t token) { ...; return goes_on; });
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/transformer.h"

namespace openwork {

struct GenerateOptions {
  int64_t tokens = 20;
  double temperature = 0;          // 0: the most likely token each time
  int64_t top_k = 0;               // sample among the k most likely; 0: among all
  double top_p = 1;                // and among the fewest that have this probability together; 1: among all
  uint64_t seed = 0;               // of Philox4x32-10: step n of every prompt draws number n
  std::optional<int64_t> stop_at;  // ends after this token
  bool use_cache = true;           // off: every step computes the whole text again (for checking)
};

// Calls visit(token) for each new token as it is made; returns all of them.
std::vector<int64_t> generate(const Transformer& model, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options,
                              const std::function<void(int64_t)>& visit = nullptr);

// The same for many prompts. visit(n, token) is told of each new token of prompt n and says whether it goes on.
std::vector<std::vector<int64_t>> generate_all(const Transformer& model,
                                               const std::vector<std::vector<int64_t>>& prompts,
                                               const GenerateOptions& options,
                                               const std::function<bool(size_t, int64_t)>& visit = nullptr);

// A token from logits [V]: the largest, or one drawn with the step's own random number.
int64_t choose_token(const Tensor& logits, const GenerateOptions& options, int64_t step);

}  // namespace openwork
