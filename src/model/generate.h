// Generation with the key/value cache: one prompt in, its continuation token by token.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/transformer.h"

namespace openwork {

struct GenerateOptions {
  int64_t tokens = 20;
  double temperature = 0;  // 0: the most likely token each time
  int64_t top_k = 0;       // sample among the k most likely; 0: among all
  uint64_t seed = 0;
  std::optional<int64_t> stop_at;  // ends after this token
  bool use_cache = true;           // off: every step computes the whole text again (for checking)
};

// Calls visit(token) for each new token as it is made; returns all of them.
std::vector<int64_t> generate(const Transformer& model, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options,
                              const std::function<void(int64_t)>& visit = nullptr);

}  // namespace openwork
