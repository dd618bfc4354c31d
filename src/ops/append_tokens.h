// What a step of generation does between its projections and attention: q and k are turned by their positions' angles,
// and k and v go behind the tokens that a cache holds. On a GPU that is one kernel where four would be launched, and
// the launches are what a step of few tokens takes its time for; elsewhere it is those ATen calls.
#pragma once
#include <ATen/core/Tensor.h>

namespace openwork {

// q [B, T, H, d]; k, v [B, T, G, d]; cosine, sine [T, half] of q's dtype, both undefined where nothing is turned; keys,
// values [B, G, capacity, d], contiguous, whose tokens [at, at + T) are written. Returns q turned, [B, T, H, d]. There
// are no gradients, and the call must not be made where they are recorded.
at::Tensor append_tokens(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const at::Tensor& cosine, const at::Tensor& sine, at::Tensor& keys,
                         at::Tensor& values, int64_t at);

}  // namespace openwork
