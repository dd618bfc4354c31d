// Gated attention, the operator the whole method rests on, as C++ calls it:
//   P = softmax(scale q k^T) over causal keys,  out = (P * z) v,  z one gate per edge, open where
//   g > 0 (hard) or g + logit(u) > 0 (sampled), g = score + bias, log P + bias, or the latter beside an idle
//   key that competes for the row and carries nothing.
// The call goes through the PyTorch dispatcher (openwork::gated_attention), so it works on every device that
// has a kernel and is differentiable in q, k, v, bias and idle. Python reaches the same operator through
// torch.ops.load_library; docs/operator.md has both.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "base/gate_kind.h"

namespace openwork {

inline constexpr std::string_view kGateScore = gate_name(GateKind::kScore);      // g = scale q.k + bias
inline constexpr std::string_view kGateLogProb = gate_name(GateKind::kLogprob);  // g = log P + bias
inline constexpr std::string_view kGateIdle = gate_name(GateKind::kIdle);        // g = log P + bias
    //     + log sigmoid(L - idle)

struct GatedAttentionResult {
  at::Tensor out;      // [B, H, T, d], as q
  at::Tensor penalty;  // [B, H] mean of sigmoid(g) over causal pairs; float32, float64 when q is
  at::Tensor active;   // [B, H] int64 count of open gates; no gradient
};

// q [B, H, T, d]; k, v [B, Hkv, T, d] with H a multiple of Hkv (query head h reads key/value head
// h / (H / Hkv)); bias [H], float32 or q's dtype; idle likewise, given with gate idle and with no other. A
// seed means gates sampled from the uniforms of (seed, first + b, h, i, j); none means hard gates. scale
// defaults to 1/sqrt(d). sharpness is 1, 2 or 4: that many times g stands for g in gates and penalty.
// Fails with c10::Error naming the argument, the value seen and the value wanted.
GatedAttentionResult gated_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const at::Tensor& bias,
                                     const std::optional<at::Tensor>& idle = std::nullopt,
                                     std::string_view gate = kGateScore,
                                     std::optional<int64_t> seed = std::nullopt, int64_t first = 0,
                                     std::optional<double> scale = std::nullopt, double sharpness = 1);

// The same of q and k that are still to be turned to their positions (turn_heads of fused.h), by tables [T, half]. One
// operator for both because a GPU's backward pass can turn gradients back where it rounds them.
struct Turns {
  at::Tensor cosine, sine;
};
GatedAttentionResult turned_gated_attention(const Turns& turns, const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v, const at::Tensor& bias,
                                            const std::optional<at::Tensor>& idle = std::nullopt,
                                            std::string_view gate = kGateScore,
                                            std::optional<int64_t> seed = std::nullopt, int64_t first = 0,
                                            std::optional<double> scale = std::nullopt, double sharpness = 1);

// The same line by line (docs/operator.md), one ATen call each: stores several [B, H, T, T] tensors, runs on
// any device and dtype, and is what every kernel is tested against.
GatedAttentionResult gated_attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                               const at::Tensor& bias,
                                               const std::optional<at::Tensor>& idle = std::nullopt,
                                               std::string_view gate = kGateScore,
                                               std::optional<int64_t> seed = std::nullopt, int64_t first = 0,
                                               std::optional<double> scale = std::nullopt,
                                               double sharpness = 1);

// The reference with its noise given: uniform [B, H, T, T] in (0, 1), or undefined for hard gates. For timing
// the plain form without the cost of drawing, and for asking what other noise would have done.
GatedAttentionResult gated_attention_with_uniforms(const at::Tensor& q, const at::Tensor& k,
                                                   const at::Tensor& v, const at::Tensor& bias,
                                                   const std::optional<at::Tensor>& idle,
                                                   std::string_view gate, const at::Tensor& uniform,
                                                   std::optional<double> scale = std::nullopt,
                                                   double sharpness = 1);

// The noise itself: [B, H, T, T] float64 on the CPU, each number a pure function of (seed, first + b, h, i,
// j).
at::Tensor gate_uniforms(int64_t B, int64_t H, int64_t T, int64_t seed, int64_t first = 0);

// Loads the GPU kernels (libopenwork_ops_cuda.so beside this library) where libtorch's CUDA part can be
// loaded; true when they are there. Call it before anything asks torch whether CUDA is available: torch
// remembers its first answer. Calling again costs nothing.
bool load_cuda_operators();

}  // namespace openwork
