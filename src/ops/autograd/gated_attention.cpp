// Gradients of gated_attention: forward keeps q, k, v, bias, idle, out, the row log-sum-exp and (on a GPU, for
// logprob and idle) the rows' slopes, and backward recomputes scores and gates from them and the seed. Nothing
// of size T x T is kept.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/arguments.h"
#include "ops/fused.h"
#include "ops/gated_attention.h"

namespace openwork {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;

struct GatedAttention : torch::autograd::Function<GatedAttention> {
  static variable_list forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& bias, const MaybeTensor& idle, const std::string& gate,
                               Seed seed, int64_t first, double scale, double sharpness, bool keep_slopes,
                               const Turns& turns) {
    static const auto kernel = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("openwork::gated_attention_forward", "")
                                   .typed<ForwardKernel>();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto turned = [&](const Tensor& x) {
      return turns.cosine.defined() ? turn_heads(x, turns.cosine, turns.sine) : x;
    };
    const Tensor turned_q = turned(q), turned_k = turned(k);
    auto [out, penalty, active, log_sum_exp, slope_rows, slope_sums] =
        kernel.call(turned_q, turned_k, v, bias, idle, gate, seed, first, scale, sharpness, keep_slopes);
    context->save_for_backward({turned_q, turned_k, v, bias, idle.value_or(Tensor()), out, log_sum_exp,
                                slope_rows, slope_sums, turns.cosine, turns.sine});
    context->saved_data["gate"] = gate;
    context->saved_data["seed"] = seed;
    context->saved_data["first"] = first;
    context->saved_data["scale"] = scale;
    context->saved_data["sharpness"] = sharpness;
    context->mark_non_differentiable({active});
    context->set_materialize_grads(false);  // else zeros are made for `active` in every backward pass
    return {out, penalty, active};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const auto kernel = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("openwork::gated_attention_backward", "")
                                   .typed<BackwardKernel>();
    const auto saved = context->get_saved_variables();
    const std::string gate = context->saved_data["gate"].toStringRef();
    const auto maybe = [&](size_t n) { return saved[n].defined() ? MaybeTensor(saved[n]) : std::nullopt; };
    const MaybeTensor idle = maybe(4);
    // A gradient may not have come, where out or penalty is not used.
    const Tensor grad_out = grads[0].defined() ? grads[0] : at::zeros_like(saved[5]);
    const Tensor grad_penalty = grads[1].defined()
                                    ? grads[1]
                                    : saved[6].new_zeros_symint({saved[6].sym_size(0), saved[6].sym_size(1)});
    const auto [grad_q, grad_k, grad_v, grad_bias, grad_idle] =
        kernel.call(grad_out, grad_penalty, saved[0], saved[1], saved[2], saved[3], idle, saved[5], saved[6],
                    saved[7], saved[8], gate, context->saved_data["seed"].toOptional<c10::SymInt>(),
                    context->saved_data["first"].toInt(), context->saved_data["scale"].toDouble(),
                    context->saved_data["sharpness"].toDouble(), maybe(9), maybe(10));
    return {grad_q,   grad_k,   grad_v,   grad_bias, idle ? grad_idle : Tensor(),
            Tensor(), Tensor(), Tensor(), Tensor(),  Tensor(),
            Tensor(), Tensor()};
  }
};

bool wants_gradient(std::initializer_list<const Tensor*> inputs, const MaybeTensor& idle) {
  bool wanted = idle && idle->requires_grad();
  for (const Tensor* input : inputs) wanted |= input->requires_grad();
  return wanted;
}

// With a node of autograd's; `turns` may be undefined.
variable_list apply_node(const Turns& turns, const Tensor& q, const Tensor& k, const Tensor& v,
                         const Tensor& bias, const MaybeTensor& idle, std::string_view gate, Seed seed,
                         int64_t first, std::optional<double> scale, double sharpness) {
  check_gated_attention(q, k, v, bias, idle, gate, first, sharpness);
  const double c = scale_of(q, scale);
  // Only where a backward pass will come, and by the kernels that have a use for them.
  const bool keep_slopes = wants_gradient({&q, &k, &v, &bias}, idle) && wants_slopes(q, gate) &&
                           !at::globalContext().deterministicAlgorithms();
  return GatedAttention::apply(q, k, v, bias, idle, std::string(gate), seed, first, c, sharpness, keep_slopes,
                               turns);
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
  const auto results = apply_node({}, q, k, v, bias, idle, gate, seed, first, scale, sharpness);
  return {results[0], results[1], results[2]};
}

// First derivatives are all there are: asking for the gradient's own gradient (create_graph) fails here
// instead of giving zeros.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> refuse_second_gradient(
    const Tensor& grad_out, const Tensor& grad_penalty, const Tensor& q, const Tensor& k, const Tensor& v,
    const Tensor& bias, const MaybeTensor& idle, const Tensor& out, const Tensor& log_sum_exp,
    const Tensor& slope_rows, const Tensor& slope_sums, std::string_view gate, Seed seed, int64_t first,
    double scale, double sharpness, const MaybeTensor& cosine, const MaybeTensor& sine) {
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
                     gate, seed, first, scale, sharpness, cosine, sine);
}

}  // namespace

GatedAttentionResult turned_gated_attention(const Turns& turns, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const Tensor& bias, const MaybeTensor& idle,
                                            std::string_view gate, std::optional<int64_t> seed, int64_t first,
                                            std::optional<double> scale, double sharpness) {
  check_turns(turns.cosine, turns.sine, q);
  if (!at::GradMode::is_enabled()) {
    return gated_attention(turn_heads(q, turns.cosine, turns.sine), turn_heads(k, turns.cosine, turns.sine),
                           v, bias, idle, gate, seed, first, scale, sharpness);
  }
  const auto results = apply_node(turns, q, k, v, bias, idle, gate, seed ? Seed(*seed) : std::nullopt, first,
                                  scale, sharpness);
  return {results[0], results[1], results[2]};
}

TORCH_LIBRARY_IMPL(openwork, Autograd, library) {
  library.impl("gated_attention", differentiable);
  library.impl("gated_attention_backward", refuse_second_gradient);
}

}  // namespace openwork
