// The schemas of openwork's operators and the C++ door to the first of them.
//   gated_attention            what callers use; differentiable
//   gated_attention_forward    the kernel under it; also returns the row log-sum-exp that backward needs
//   gated_attention_backward   gradients of q, k, v, bias and idle, recomputing scores and gates from the
//   seed gated_attention_reference  the same line by line as docs/operator.md has it; gate_uniforms is its
//   noise
// Kernels register themselves at the bottom of their own files: cpu/, cuda/, meta/, autograd/.
#include "ops/gated_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/arguments.h"

namespace openwork {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// Without gradients: the forward kernel of the inputs' device, its log-sum-exp dropped.
std::tuple<Tensor, Tensor, Tensor> call_forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const Tensor& bias, const MaybeTensor& idle,
                                                std::string_view gate, Seed seed, int64_t first,
                                                std::optional<double> scale, double sharpness) {
  static const auto forward = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("openwork::gated_attention_forward", "")
                                  .typed<ForwardKernel>();
  check_gated_attention(q, k, v, bias, idle, gate, first, sharpness);
  const double c = scale_of(q, scale);
  const ForwardResult result =
      forward.call(q, k, v, bias, idle, gate, seed, first, c, sharpness, /*keep_slopes=*/false);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

}  // namespace

GatedAttentionResult gated_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                                     const MaybeTensor& idle, std::string_view gate,
                                     std::optional<int64_t> seed, int64_t first, std::optional<double> scale,
                                     double sharpness) {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("openwork::gated_attention", "").typed<Operator>();
  auto [out, penalty, active] =
      handle.call(q, k, v, bias, idle, gate, seed ? Seed(*seed) : std::nullopt, first, scale, sharpness);
  return {out, penalty, active};
}

TORCH_LIBRARY(openwork, library) {
  library.def(
      "gated_attention(Tensor q, Tensor k, Tensor v, Tensor bias, Tensor? idle=None, *, str gate=\"score\", "
      "SymInt? seed=None, int first=0, float? scale=None, float sharpness=1) "
      "-> (Tensor out, Tensor penalty, Tensor active)");
  library.def(
      "gated_attention_reference(Tensor q, Tensor k, Tensor v, Tensor bias, Tensor? idle=None, *, "
      "str gate=\"score\", int? seed=None, int first=0, float? scale=None, float sharpness=1) "
      "-> (Tensor out, Tensor penalty, Tensor active)");
  library.def(
      "gated_attention_forward(Tensor q, Tensor k, Tensor v, Tensor bias, Tensor? idle, str gate, SymInt? "
      "seed, "
      "int first, float scale, float sharpness, bool keep_slopes=False) "
      "-> (Tensor out, Tensor penalty, Tensor active, Tensor log_sum_exp, Tensor slope_rows, "
      "Tensor slope_sums)");
  library.def(
      "gated_attention_backward(Tensor grad_out, Tensor grad_penalty, Tensor q, Tensor k, Tensor v, "
      "Tensor bias, Tensor? idle, Tensor out, Tensor log_sum_exp, Tensor slope_rows, Tensor slope_sums, "
      "str gate, SymInt? seed, int first, "
      "float scale, float sharpness, Tensor? cosine=None, Tensor? sine=None) "
      "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_bias, Tensor grad_idle)");
  library.def("gate_uniforms(int B, int H, int T, int seed, int first=0) -> Tensor");
}

TORCH_LIBRARY_IMPL(openwork, CompositeExplicitAutograd, library) {
  library.impl("gated_attention", call_forward);
}

}  // namespace openwork
