#include "train/recompute.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "model/architecture.h"

namespace openwork {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The model over the same memory, cut off from the graph that made its parameters: running one of its layers
// anew gives gradients of that layer's own parameters and nothing behind them.
struct Twin {
  Transformer model;
  std::vector<std::vector<Tensor>> given, own;  // [layer] parameters of the model and of the twin

  explicit Twin(const Transformer& of) : model(of.config(), detach(of.parameters())) {
    const auto layers = static_cast<size_t>(of.config().layers);
    given.resize(layers), own.resize(layers);
    const auto specs = list_parameters(architecture_named(of.config().architecture, "model"), of.config());
    for (size_t n = 0; n < specs.size(); ++n) {
      const Tensor& tensor = of.parameters()[n].second;
      if (specs[n].layer < 0 || !tensor.requires_grad()) continue;
      given[static_cast<size_t>(specs[n].layer)].push_back(tensor);
      own[static_cast<size_t>(specs[n].layer)].push_back(model.parameters()[n].second);
    }
  }

  static NamedTensors detach(const NamedTensors& parameters) {
    NamedTensors result;
    for (const auto& [name, tensor] : parameters)
      result.emplace_back(name, tensor.detach().set_requires_grad(tensor.requires_grad()));
    return result;
  }
};

// One layer of one pass; travels from the forward to the backward pass inside the graph.
struct LayerCall : torch::CustomClassHolder {
  std::shared_ptr<const Twin> twin;
  int64_t index = 0;
  GateDraw draw;

  // {x after the layer} or, with gates, {x, penalty, active}.
  variable_list run(const Tensor& x) const {
    GateTotals gates;
    ForwardOptions options;
    options.draw = draw;
    options.gate_totals = &gates;
    variable_list result = {twin->model.run_layers(x, index, index + 1, options)};
    if (!gates.penalty.empty()) result.insert(result.end(), {gates.penalty[0], gates.active[0]});
    return result;
  }
};

struct RecomputedLayer : torch::autograd::Function<RecomputedLayer> {
  static variable_list forward(AutogradContext* context, const Tensor& x, at::TensorList weights,
                               const c10::intrusive_ptr<LayerCall>& call) {
    context->save_for_backward({x});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->saved_data["weights"] = static_cast<int64_t>(weights.size());
    variable_list result = call->run(x);
    if (result.size() == 3) context->mark_non_differentiable({result[2]});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto call = c10::static_intrusive_pointer_cast<LayerCall>(context->saved_data["call"].toCapsule());
    const auto weights = static_cast<size_t>(context->saved_data["weights"].toInt());
    const std::vector<Tensor>& own = call->twin->own[static_cast<size_t>(call->index)];
    const at::AutoGradMode with_graph(true);
    const Tensor x = context->get_saved_variables()[0].detach().set_requires_grad(true);
    variable_list outputs = call->run(x), inputs = {x}, given = {gradients[0]};
    // A layer without heads has a penalty of 0 that nothing leads to.
    if (outputs.size() == 3 && outputs[1].requires_grad()) given.push_back(gradients[1]);
    outputs.resize(given.size());
    inputs.insert(inputs.end(), own.begin(), own.end());
    variable_list result = torch::autograd::grad(outputs, inputs, given, /*retain_graph=*/std::nullopt,
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    result.resize(1 + weights + 1);  // the call itself has no gradient
    return result;
  }
};

Tensor run_recomputed(const std::shared_ptr<const Twin>& twin, const Tensor& x, int64_t index,
                      const ForwardOptions& options) {
  auto call = c10::make_intrusive<LayerCall>();
  call->twin = twin, call->index = index, call->draw = options.draw;
  const variable_list result =
      RecomputedLayer::apply(x, at::TensorList(twin->given[static_cast<size_t>(index)]), call);
  if (result.size() == 3 && options.gate_totals) {
    options.gate_totals->penalty.push_back(result[1]);
    options.gate_totals->active.push_back(result[2]);
  }
  return result[0];
}

}  // namespace

void recompute_layers(Transformer& model) {
  const auto twin = std::make_shared<const Twin>(model);
  model.wrap_layers([twin](const Tensor& x, int64_t index, const ForwardOptions& options) {
    return run_recomputed(twin, x, index, options);
  });
}

}  // namespace openwork
