// Gradients of gated_attention: forward keeps q, k, v, bias, idle, out, the row log-sum-exp and (on a GPU, for
// logprob and idle) the rows' slopes, and backward recomputes scores and gates from them and the seed. Nothing
// of size T x T is kept.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/arguments.h"

namespace openwork {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;

struct GatedAttention : torch::autograd::Function<GatedAttention> {
  static variable_list forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& bias, const MaybeTensor& idle, const std::string& gate,
                               Seed seed, int64_t first, double scale, double sharpness, bool keep_slopes) {
    static const auto kernel = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("openwork::gated_attention_forward", "")
                                   .typed<ForwardKernel>();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [out, penalty, active, log_sum_exp, slope_rows, slope_sums] =
        kernel.call(q, k, v, bias, idle, gate, seed, first, scale, sharpness, keep_slopes);
    context->save_for_backward(
        {q, k, v, bias, idle.value_or(Tensor()), out, log_sum_exp, slope_rows, slope_sums});
    context->saved_data["gate"] = gate;
    context->saved_data["seed"] = seed;
    context->saved_data["first"] = first;
    context->saved_data["scale"] = scale;
    context->saved_data["sharpness"] = sharpness;
    context->mark_non_differentiable({active});
    return {out, penalty, active};
  }

  // A gradient that never came (penalty unused, say) arrives as zeros.
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const auto kernel = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("openwork::gated_attention_backward", "")
                                   .typed<BackwardKernel>();
    const auto saved = context->get_saved_variables();
    const std::string gate = context->saved_data["gate"].toStringRef();
    const MaybeTensor idle = saved[4].defined() ? MaybeTensor(saved[4]) : std::nullopt;
    const auto [grad_q, grad_k, grad_v, grad_bias, grad_idle] =
        kernel.call(grads[0], grads[1], saved[0], saved[1], saved[2], saved[3], idle, saved[5], saved[6],
                    saved[7], saved[8], gate, context->saved_data["seed"].toOptional<c10::SymInt>(),
                    context->saved_data["first"].toInt(), context->saved_data["scale"].toDouble(),
                    context->saved_data["sharpness"].toDouble());
    return {grad_q,   grad_k,   grad_v,   grad_bias, idle ? grad_idle : Tensor(), Tensor(), Tensor(),
            Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

bool wants_gradient(std::initializer_list<const Tensor*> inputs, const MaybeTensor& idle) {
  bool wanted = idle && idle->requires_grad();
  for (const Tensor* input : inputs) wanted |= input->requires_grad();
  return wanted;
}

std::tuple<Tensor, Tensor, Tensor> differentiable(const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& bias, const MaybeTensor& idle,
                                                  std::string_view gate, Seed seed, int64_t first,
                                                  std::optional<double> scale, double sharpness) {
  if (!at::GradMode::is_enabled()) {  // a node that nobody asks costs as much as a small kernel
    static const auto kernel =
        c10::Dispatcher::singleton().findSchemaOrThrow("openwork::gated_attention", "").typed<Operator>();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return kernel.call(q, k, v, bias, idle, gate, seed, first, scale, sharpness);
  }
  check_gated_attention(q, k, v, bias, idle, gate, first, sharpness);
  const double c = scale_of(q, scale);
  // Only where a backward pass will come, and by the kernels that have a use for them.
  const bool keep_slopes = wants_gradient({&q, &k, &v, &bias}, idle) && wants_slopes(q, gate) &&
                           !at::globalContext().deterministicAlgorithms();
  auto results =
      GatedAttention::apply(q, k, v, bias, idle, std::string(gate), seed, first, c, sharpness, keep_slopes);
  return {results[0], results[1], results[2]};
}

// First derivatives are all there are: asking for the gradient's own gradient (create_graph) fails here
// instead of giving zeros.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> refuse_second_gradient(
    const Tensor& grad_out, const Tensor& grad_penalty, const Tensor& q, const Tensor& k, const Tensor& v,
    const Tensor& bias, const MaybeTensor& idle, const Tensor& out, const Tensor& log_sum_exp,
    const Tensor& slope_rows, const Tensor& slope_sums, std::string_view gate, Seed seed, int64_t first,
    double scale, double sharpness) {
  static const auto kernel = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("openwork::gated_attention_backward", "")
                                 .typed<BackwardKernel>();
  const bool asked = wants_gradient({&grad_out, &grad_penalty, &q, &k, &v, &bias}, idle);
  TORCH_CHECK(
      !(asked && at::GradMode::is_enabled()),
      "gated_attention: a second derivative was asked for (create_graph=True); only first derivatives "
      "are implemented; use openwork::gated_attention_reference for higher ones");
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return kernel.call(grad_out, grad_penalty, q, k, v, bias, idle, out, log_sum_exp, slope_rows, slope_sums,
                     gate, seed, first, scale, sharpness);
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, Autograd, library) {
  library.impl("gated_attention", differentiable);
  library.impl("gated_attention_backward", refuse_second_gradient);
}

}  // namespace openwork
