// Gated attention by the lines and names of docs/operator.md, each one an ATen call; gradients are
// autograd's.
//   S = c q k^T,  P = softmax(S),  g = S + b, log P + b or log P + b + log sigmoid(L - a), times r,
//   z = 1[g + log u - log(1 - u) > 0],  y = (P z) v,
//   penalty = mean of sigmoid(g),  active = sum of z                      over causal pairs j <= i
// It stores several T x T tensors per head; every kernel is tested against it.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <cmath>

#include "base/philox.h"
#include "ops/arguments.h"
#include "ops/gated_attention.h"
#include "ops/threads.h"

namespace openwork {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// Query head h reads key/value head h / group size.
Tensor repeat_heads(const Tensor& tensor, int64_t heads) {
  return tensor.repeat_interleave(heads / tensor.size(1), 1);
}

// g [B, H, T, T], 0 at pairs that are not causal unless the gate is score; S as it is, masked with -inf
// there.
Tensor gate_inputs(const Tensor& S, const Tensor& masked, const Tensor& b, const MaybeTensor& idle,
                   GateKind gate) {
  if (gate == GateKind::kScore) return S + b;
  const Tensor g = masked.log_softmax(-1).masked_fill(masked.isneginf(), 0) + b;
  if (gate == GateKind::kLogprob) return g;
  const Tensor a = idle->to(S.scalar_type()).view({-1, 1, 1});
  return g + at::log_sigmoid(masked.logsumexp(-1, true) - a);  // log sigmoid(L_i - a)
}

// The open gates, 0 or 1 as g's dtype. Sampled gates are straight-through: forward the step, backward
// s(1 - s) with s = sigmoid(g + logit u). Hard gates have no gradient.
Tensor open_gates(const Tensor& g, const Tensor& uniform) {
  if (!uniform.defined()) return (g > 0).to(g.scalar_type());
  const Tensor u = uniform.to(g.device());
  const Tensor noisy = g + (u.log() - (1 - u).log()).to(g.scalar_type());
  const Tensor s = noisy.sigmoid();
  return (noisy > 0).to(g.scalar_type()) + (s - s.detach());
}

}  // namespace

GatedAttentionResult gated_attention_with_uniforms(const Tensor& q, const Tensor& k, const Tensor& v,
                                                   const Tensor& bias, const MaybeTensor& idle,
                                                   std::string_view gate, const Tensor& uniform,
                                                   std::optional<double> scale, double sharpness) {
  check_gated_attention(q, k, v, bias, idle, gate, 0, sharpness);
  const int64_t H = q.size(1), T = q.size(2);
  const double c = scale_of(q, scale);
  const Tensor causal = at::ones({T, T}, q.options().dtype(at::kBool)).tril();  // [T, T]
  const Tensor b = bias.to(q.scalar_type()).view({H, 1, 1});
  const double pairs = std::max(1.0, 0.5 * static_cast<double>(T) * static_cast<double>(T + 1));

  const Tensor S = c * q.matmul(repeat_heads(k, H).transpose(-2, -1));  // [B, H, T, T]
  const Tensor masked = S.masked_fill(~causal, -INFINITY);              // [B, H, T, T]
  const Tensor P = masked.softmax(-1);                                  // [B, H, T, T]
  const Tensor g = sharpness * gate_inputs(S, masked, b, idle, gate_of(gate));
  const Tensor z = open_gates(g, uniform).masked_fill(~causal, 0);  // [B, H, T, T]
  const Tensor y = (P * z).matmul(repeat_heads(v, H));              // [B, H, T, d]
  const Tensor penalty = (g.sigmoid().masked_fill(~causal, 0)).sum({-2, -1}, false, sum_dtype(q)) / pairs;
  const Tensor active = z.detach().gt(0.5).sum({-2, -1});
  return {y, penalty, active};
}

GatedAttentionResult gated_attention_reference(const Tensor& q, const Tensor& k, const Tensor& v,
                                               const Tensor& bias, const MaybeTensor& idle,
                                               std::string_view gate, std::optional<int64_t> seed,
                                               int64_t first, std::optional<double> scale, double sharpness) {
  check_gated_attention(q, k, v, bias, idle, gate, first, sharpness);
  Tensor uniform;
  if (seed) uniform = gate_uniforms(q.size(0), q.size(1), q.size(2), *seed, first);
  return gated_attention_with_uniforms(q, k, v, bias, idle, gate, uniform, scale, sharpness);
}

Tensor gate_uniforms(int64_t B, int64_t H, int64_t T, int64_t seed, int64_t first) {
  TORCH_CHECK(B >= 0 && H >= 0 && T >= 0 && first >= 0, "gate_uniforms: sizes B = ", B, ", H = ", H,
              ", T = ", T, ", first = ", first, "; none may be negative");
  Tensor uniform = at::empty({B, H, T, T}, at::kDouble);
  double* values = uniform.mutable_data_ptr<double>();
  share_range(B * H * T, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = first + row / (H * T), h = row / T % H, i = row % T;
      for (int64_t octet = 0; octet * kGateKeys < T; ++octet) {
        const Philox4 draw = philox<kGateRounds>(seed, gate_counter(b, h, i, octet, H, T));
        const int64_t end = std::min(T, (octet + 1) * kGateKeys);
        for (int64_t j = octet * kGateKeys; j < end; ++j) {
          values[row * T + j] = gate_uniform(gate_bits(draw, j));
        }
      }
    }
  });
  return uniform;
}

namespace {

std::tuple<Tensor, Tensor, Tensor> reference_operator(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const Tensor& bias, const MaybeTensor& idle,
                                                      std::string_view gate, std::optional<int64_t> seed,
                                                      int64_t first, std::optional<double> scale,
                                                      double sharpness) {
  auto result = gated_attention_reference(q, k, v, bias, idle, gate, seed, first, scale, sharpness);
  return {result.out, result.penalty, result.active};
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, CompositeImplicitAutograd, library) {
  library.impl("gated_attention_reference", reference_operator);
}
TORCH_LIBRARY_IMPL(openwork, CompositeExplicitAutograd, library) {
  library.impl("gate_uniforms", gate_uniforms);
}

}  // namespace openwork
