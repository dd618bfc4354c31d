// The logit lens: what a model would say at every position if its stream ended after the embedding, or after any
// of its layers; the final norm and the unembedding are applied to the stream there. The last point is the
// model's own output.
#pragma once
#include <string>
#include <vector>

#include "analyze/next_tokens.h"

namespace openwork {

struct LogitLens {
  std::vector<std::string> points;                       // "embedding", "L0", "L1", ...
  std::vector<std::vector<std::vector<NextToken>>> top;  // [point][position][rank]
  int64_t answer = 0;                                    // most likely behind the last position
  std::vector<std::vector<double>> answer_probability;   // [point][position]
};

// ids: one prompt; `most` tokens are named at each place.
LogitLens read_lens(const Transformer& model, const std::vector<int64_t>& ids, int64_t most);

}  // namespace openwork
