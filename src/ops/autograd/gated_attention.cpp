// Gradients of gated_attention: forward keeps q, k, v, bias, out and the row log-sum-exp, and backward
// recomputes scores and gates from them and the seed. Nothing of size T x T is kept.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/arguments.h"

namespace openwork {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Seed = std::optional<int64_t>;
using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&,
                                                           const Tensor&, std::string_view, Seed, int64_t,
                                                           double);
using Backward = std::tuple<Tensor, Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&,
                                                            const Tensor&, const Tensor&, const Tensor&,
                                                            const Tensor&, const Tensor&, std::string_view,
                                                            Seed, int64_t, double);

struct GatedAttention : torch::autograd::Function<GatedAttention> {
  static variable_list forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& bias, const std::string& gate, Seed seed, int64_t first,
                               double scale) {
    static const auto kernel = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("openwork::gated_attention_forward", "")
                                   .typed<Forward>();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [out, penalty, active, log_sum_exp] = kernel.call(q, k, v, bias, gate, seed, first, scale);
    context->save_for_backward({q, k, v, bias, out, log_sum_exp});
    context->saved_data["gate"] = gate;
    context->saved_data["seed"] = seed;
    context->saved_data["first"] = first;
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({active});
    return {out, penalty, active};
  }

  // A gradient that never came (penalty unused, say) arrives as zeros.
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const auto kernel = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("openwork::gated_attention_backward", "")
                                   .typed<Backward>();
    const auto saved = context->get_saved_variables();
    const std::string gate = context->saved_data["gate"].toStringRef();
    const auto [grad_q, grad_k, grad_v, grad_bias] =
        kernel.call(grads[0], grads[1], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], gate,
                    context->saved_data["seed"].toOptional<int64_t>(), context->saved_data["first"].toInt(),
                    context->saved_data["scale"].toDouble());
    return {grad_q, grad_k, grad_v, grad_bias, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

std::tuple<Tensor, Tensor, Tensor> differentiable(const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& bias, std::string_view gate, Seed seed,
                                                  int64_t first, std::optional<double> scale) {
  check_gated_attention(q, k, v, bias, gate, first);
  const double c = scale_of(q, scale);
  auto results = GatedAttention::apply(q, k, v, bias, std::string(gate), seed, first, c);
  return {results[0], results[1], results[2]};
}

// First derivatives are all there are: asking for the gradient's own gradient (create_graph) fails here
// instead of giving zeros.
std::tuple<Tensor, Tensor, Tensor, Tensor> refuse_second_gradient(
    const Tensor& grad_out, const Tensor& grad_penalty, const Tensor& q, const Tensor& k, const Tensor& v,
    const Tensor& bias, const Tensor& out, const Tensor& log_sum_exp, std::string_view gate, Seed seed,
    int64_t first, double scale) {
  static const auto kernel = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("openwork::gated_attention_backward", "")
                                 .typed<Backward>();
  bool asked = false;
  for (const Tensor* tensor : {&grad_out, &grad_penalty, &q, &k, &v, &bias}) asked |= tensor->requires_grad();
  TORCH_CHECK(
      !(asked && at::GradMode::is_enabled()),
      "gated_attention: a second derivative was asked for (create_graph=True); only first derivatives "
      "are implemented; use openwork::gated_attention_reference for higher ones");
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return kernel.call(grad_out, grad_penalty, q, k, v, bias, out, log_sum_exp, gate, seed, first, scale);
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, Autograd, library) {
  library.impl("gated_attention", differentiable);
  library.impl("gated_attention_backward", refuse_second_gradient);
}

}  // namespace openwork
