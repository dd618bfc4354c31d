// Gated attention by the lines and names of docs/operator.md, each one an ATen call; gradients are
// autograd's.
//   S = c q k^T,  P = softmax(S),  g = S + b or log P + b,  z = 1[g + log u - log(1 - u) > 0],
//   y = (P z) v,  penalty = mean of sigmoid(g),  active = sum of z        over causal pairs j <= i
// It stores several T x T tensors per head; every kernel is tested against it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <cmath>

#include "base/philox.h"
#include "ops/arguments.h"
#include "ops/gated_attention.h"

namespace openwork {
namespace {

using at::Tensor;

// Query head h reads key/value head h / group size.
Tensor repeat_heads(const Tensor& tensor, int64_t heads) {
  return tensor.repeat_interleave(heads / tensor.size(1), 1);
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
                                                   const Tensor& bias, std::string_view gate,
                                                   const Tensor& uniform, std::optional<double> scale) {
  check_gated_attention(q, k, v, bias, gate, 0);
  const int64_t H = q.size(1), T = q.size(2);
  const double c = scale_of(q, scale);
  const Tensor causal = at::ones({T, T}, q.options().dtype(at::kBool)).tril();  // [T, T]
  const Tensor b = bias.to(q.scalar_type()).view({H, 1, 1});
  const double pairs = std::max(1.0, 0.5 * static_cast<double>(T) * static_cast<double>(T + 1));

  const Tensor S = c * q.matmul(repeat_heads(k, H).transpose(-2, -1));     // [B, H, T, T]
  const Tensor log_P = S.masked_fill(~causal, -INFINITY).log_softmax(-1);  // [B, H, T, T]
  const Tensor P = log_P.exp();                                            // [B, H, T, T]
  const Tensor g = parse_gate(gate) == Gate::kScore ? S + b : log_P.masked_fill(~causal, 0) + b;
  const Tensor z = open_gates(g, uniform).masked_fill(~causal, 0);  // [B, H, T, T]
  const Tensor y = (P * z).matmul(repeat_heads(v, H));              // [B, H, T, d]
  const Tensor penalty = (g.sigmoid().masked_fill(~causal, 0)).sum({-2, -1}, false, sum_dtype(q)) / pairs;
  const Tensor active = z.detach().gt(0.5).sum({-2, -1});
  return {y, penalty, active};
}

GatedAttentionResult gated_attention_reference(const Tensor& q, const Tensor& k, const Tensor& v,
                                               const Tensor& bias, std::string_view gate,
                                               std::optional<int64_t> seed, int64_t first,
                                               std::optional<double> scale) {
  check_gated_attention(q, k, v, bias, gate, first);
  Tensor uniform;
  if (seed) uniform = gate_uniforms(q.size(0), q.size(1), q.size(2), *seed, first);
  return gated_attention_with_uniforms(q, k, v, bias, gate, uniform, scale);
}

Tensor gate_uniforms(int64_t B, int64_t H, int64_t T, int64_t seed, int64_t first) {
  TORCH_CHECK(B >= 0 && H >= 0 && T >= 0 && first >= 0, "gate_uniforms: sizes B = ", B, ", H = ", H,
              ", T = ", T, ", first = ", first, "; none may be negative");
  Tensor uniform = at::empty({B, H, T, T}, at::kDouble);
  double* values = uniform.mutable_data_ptr<double>();
  at::parallel_for(0, B * H * T, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = first + row / (H * T), h = row / T % H, i = row % T;
      for (int64_t j = 0; j < T; ++j) {
        const Philox4 draw = philox(seed, gate_counter(b, h, i, j / 4, H, T));
        for (int64_t lane = 0; lane < 4 && j + lane < T; ++lane) {
          values[row * T + j + lane] = uniform_of(draw.word[lane]);
        }
        j += 3;
      }
    }
  });
  return uniform;
}

namespace {

std::tuple<Tensor, Tensor, Tensor> reference_operator(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const Tensor& bias, std::string_view gate,
                                                      std::optional<int64_t> seed, int64_t first,
                                                      std::optional<double> scale) {
  auto result = gated_attention_reference(q, k, v, bias, gate, seed, first, scale);
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
