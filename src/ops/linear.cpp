#include "ops/linear.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/few_rows.h"
#include "ops/fused_kernels.h"

namespace openwork {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The sum of x's rows, or nothing where it is added to `sum`.
Tensor sum_rows(const Tensor& x, const Tensor& sum) {
  static const auto kernel = find_kernel<void(const Tensor&, const Tensor&, bool)>("openwork::sum_rows");
  if (!has_whole_rows(x)) {
    if (!sum.defined()) return x.sum(0);
    sum.add_(x.sum(0));
    return {};
  }
  const Tensor out = sum.defined() ? sum : at::empty({x.size(1)}, x.options());
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  kernel.call(x, out, sum.defined());
  return sum.defined() ? Tensor() : out;
}

// Of one layer: what the backward pass needs beside x and the weight.
struct LinearPlan {
  bool transposed = false, adds_to_grad = false, adds_bias = false, for_weight = false, for_bias = false;
};

struct PlanHolder : torch::CustomClassHolder {
  std::vector<LinearPlan> layers;
  bool for_x = false;
};

Tensor matrix_of(const Tensor& weight, const LinearPlan& plan) {
  return LinearWeights{weight, /*bias=*/{}, plan.transposed}.matrix();
}

// The weight's gradient, in its own layout; undefined where it has gone where it belongs.
Tensor weight_gradient(const Tensor& grad, const Tensor& x, const Tensor& weight, const LinearPlan& plan) {
  const Tensor a = plan.transposed ? x.t() : grad.t(), &b = plan.transposed ? grad : x;
  if (!plan.adds_to_grad) return at::mm(a, b);
  Tensor sum = weight.grad();
  at::addmm_out(sum, sum, a, b);
  return {};
}

struct LinearTogether : torch::autograd::Function<LinearTogether> {
  // x [N, in]; parts: the weights, and then as many biases, empty where there is none.
  static variable_list forward(AutogradContext* context, const Tensor& x, at::TensorList parts,
                               const c10::intrusive_ptr<PlanHolder>& plan) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const size_t count = plan->layers.size();
    // Nothing is kept for a gradient that nobody wants: not x where weights are frozen, not a weight whose x is.
    const bool weighed =
        std::ranges::any_of(plan->layers, [](const auto& layer) { return layer.for_weight; });
    variable_list saved = {weighed ? x : Tensor()}, results;
    for (size_t n = 0; n < count; ++n) {
      const Tensor matrix = matrix_of(parts[n], plan->layers[n]), &bias = parts[count + n];
      saved.push_back(plan->for_x || plan->layers[n].adds_to_grad ? parts[n] : Tensor());
      results.push_back(bias.numel() > 0 ? at::addmm(bias, x, matrix.t()) : at::mm(x, matrix.t()));
    }
    for (size_t n = 0; n < count; ++n)
      saved.push_back(plan->layers[n].adds_bias ? parts[count + n] : Tensor());
    context->save_for_backward(saved);
    context->saved_data["plan"] = c10::IValue::make_capsule(plan);
    context->set_materialize_grads(false);
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto plan = c10::static_intrusive_pointer_cast<PlanHolder>(context->saved_data["plan"].toCapsule());
    const auto saved = context->get_saved_variables();
    const size_t count = plan->layers.size();
    variable_list result(1 + 2 * count + 1);  // the plan itself has no gradient
    for (size_t n = 0; n < count; ++n) {
      if (!grads[n].defined()) continue;
      const LinearPlan& layer = plan->layers[n];
      const Tensor &x = saved[0], &weight = saved[1 + n], grad = grads[n].contiguous();
      if (plan->for_x) {
        const Tensor matrix = matrix_of(weight, layer);
        result[0].defined() ? result[0].addmm_(grad, matrix) : result[0] = at::mm(grad, matrix);
      }
      if (layer.for_weight) result[1 + n] = weight_gradient(grad, x, weight, layer);
      if (layer.for_bias) {
        const Tensor& bias = saved[1 + count + n];
        result[1 + count + n] = sum_rows(grad, bias.defined() ? bias.grad() : bias);
      }
    }
    return result;
  }
};

// Where something is gained: on a GPU, with gradients, by several layers, a bias or a sum in place.
bool wants_together(const Tensor& x, const std::vector<LinearWeights>& layers) {
  if (!at::GradMode::is_enabled() || !has_kernel(x)) return false;
  const auto fits = [&](const Tensor& y) { return !y.defined() || y.scalar_type() == x.scalar_type(); };
  return std::ranges::all_of(layers,
                             [&](const auto& layer) { return fits(layer.weight) && fits(layer.bias); }) &&
         (layers.size() > 1 || layers[0].bias.defined() || layers[0].adds_to_grad);
}

LinearPlan plan_layer(const LinearWeights& layer) {
  const auto wants = [](const Tensor& x) { return x.defined() && x.requires_grad(); };
  const auto adds = [&](const Tensor& x) { return layer.adds_to_grad && wants(x) && x.grad().defined(); };
  return {layer.transposed, layer.adds_to_grad && layer.weight.grad().defined(), adds(layer.bias),
          wants(layer.weight), wants(layer.bias)};
}

}  // namespace

std::vector<Tensor> linear_together(const Tensor& x, const std::vector<LinearWeights>& layers) {
  std::vector<Tensor> results;
  if (!wants_together(x, layers)) {
    for (const LinearWeights& layer : layers)
      results.push_back(few_rows_linear(x, layer.matrix(), layer.bias));
    return results;
  }
  const auto plan = c10::make_intrusive<PlanHolder>();
  plan->for_x = x.requires_grad();
  variable_list parts;
  for (const LinearWeights& layer : layers)
    parts.push_back(layer.weight), plan->layers.push_back(plan_layer(layer));
  for (const LinearWeights& layer : layers)
    parts.push_back(layer.bias.defined() ? layer.bias : at::empty({0}, x.options()));
  auto sizes = x.sizes().vec();
  for (const Tensor& rows : LinearTogether::apply(x.reshape({-1, x.size(-1)}), at::TensorList(parts), plan)) {
    sizes.back() = rows.size(1);
    results.push_back(rows.view(sizes));
  }
  return results;
}

TORCH_LIBRARY_FRAGMENT(openwork, library) {
  library.def("sum_rows(Tensor x, Tensor(a!) sum, bool adds) -> ()");
}

}  // namespace openwork
