// Shapes without numbers: what gated_attention's kernels return, for meta and fake tensors (torch.compile,
// memory planning). Sizes may be symbolic.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/arguments.h"

namespace openwork {
namespace {

using at::Tensor;

ForwardResult forward_shapes(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                             const std::optional<Tensor>& idle, std::string_view gate, Seed seed,
                             int64_t first, double, double sharpness, bool keep_slopes) {
  check_gated_attention(q, k, v, bias, idle, gate, first, sharpness);
  const auto B = q.sym_size(0), H = q.sym_size(1), T = q.sym_size(2);
  const auto sums = q.options().dtype(sum_dtype(q));
  const auto [slope_rows, slope_sums] = make_slopes(q, seed.has_value(), keep_slopes);
  return {at::empty_symint(q.sym_sizes(), q.options()),
          at::empty_symint({B, H}, sums),
          at::empty_symint({B, H}, q.options().dtype(at::kLong)),
          at::empty_symint({B, H, T}, sums),
          slope_rows,
          slope_sums};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> backward_shapes(
    const Tensor& grad_out, const Tensor& grad_penalty, const Tensor& q, const Tensor& k, const Tensor& v,
    const Tensor& bias, const std::optional<Tensor>& idle, const Tensor& out, const Tensor& log_sum_exp,
    const Tensor& slope_rows, const Tensor& slope_sums, std::string_view gate, Seed seed, int64_t first,
    double, double sharpness, const std::optional<Tensor>& cosine, const std::optional<Tensor>& sine) {
  check_gated_attention_backward(grad_out, grad_penalty, q, k, v, bias, idle, out, log_sum_exp, gate, first,
                                 sharpness);
  check_slopes(slope_rows, slope_sums, q, seed.has_value());
  check_turns(cosine, sine, q);
  return {at::empty_symint(q.sym_sizes(), q.options()), at::empty_symint(k.sym_sizes(), k.options()),
          at::empty_symint(v.sym_sizes(), v.options()), at::empty_symint(bias.sym_sizes(), bias.options()),
          idle ? at::empty_symint(idle->sym_sizes(), idle->options()) : at::empty({0}, bias.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, Meta, library) {
  library.impl("gated_attention_forward", forward_shapes);
  library.impl("gated_attention_backward", backward_shapes);
}

}  // namespace openwork
