// Gated attention where z alone is wanted: hard gates, no penalty, no counts, no gradients. What cannot open is
// skipped (cpu/inference.cpp, cuda/inference.cu), and queries may stand behind a cache. The call goes through the
// PyTorch dispatcher (openwork::gated_inference).
//   Tensor z = gated_inference(q, k, v, bias, idle, GateKind::kIdle, scale);
#pragma once
#include <ATen/core/Tensor.h>

#include "base/gate_kind.h"

namespace openwork {

// q [B, H, T, d]; k, v [B, G, K, d], K >= T, the last T keys at the queries' own positions; bias and idle [H],
// float32 or q's dtype, undefined where the gate has none; key_of_query [H] int64 says which of the G a query head
// reads, undefined: h / (H / G). Gate kNone leaves every causal edge open. The result is [B, H, T, d], equal to
// gated_attention's and to dense attention to rounding; a row without an open edge is 0.
at::Tensor gated_inference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& bias, const at::Tensor& idle, GateKind gate, double scale,
                           const at::Tensor& key_of_query = {});

// Whether it is the quick way for queries like q before `keys` keys. On the CPU it always is; on a GPU for whole texts,
// and behind a cache for few queries or few keys.
bool is_quick_inference(const at::Tensor& q, int64_t keys);

}  // namespace openwork
