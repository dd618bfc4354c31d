#include "train/starting_point.h"

#include <ATen/ATen.h>

#include <map>

#include "model/architecture.h"

namespace openwork {
namespace {

std::vector<ParameterSpec> specs_of(const ModelConfig& config) {
  return list_parameters(architecture_named(config.architecture, "model"), config);
}

}  // namespace

double default_gate_bias(GateKind gate) {
  return gate == GateKind::kScore ? 4 : 5;
}

StartingPoint put_gates(const Transformer& base, GateKind gate, std::optional<double> bias,
                        std::optional<double> idle) {
  StartingPoint start{base.config(), {}};
  const bool same = base.config().gate == gate;
  start.config.gate = gate;
  const std::map<std::string, Tensor> own(base.parameters().begin(), base.parameters().end());
  for (const ParameterSpec& spec : specs_of(start.config)) {
    const std::optional<double>& given = spec.role == Role::kGateIdle ? idle : bias;
    const double usual = spec.role == Role::kGateIdle ? kDefaultIdle : default_gate_bias(gate);
    const bool fresh = is_gate(spec.role) && (given || !same);
    start.parameters.emplace_back(
        spec.name, fresh ? at::full(spec.shape, given.value_or(usual), at::kFloat) : own.at(spec.name));
  }
  return start;
}

StartingPoint remove_gates(const Transformer& base) {
  StartingPoint start{base.config(), {}};
  start.config.gate = GateKind::kNone;
  const std::map<std::string, Tensor> own(base.parameters().begin(), base.parameters().end());
  for (const ParameterSpec& spec : specs_of(start.config))
    start.parameters.emplace_back(spec.name, own.at(spec.name));
  return start;
}

Transformer move_to(const Transformer& model, at::ScalarType dtype, const at::Device& device) {
  NamedTensors moved;
  const std::vector<ParameterSpec> specs = specs_of(model.config());
  for (size_t n = 0; n < specs.size(); ++n) {
    const auto& [name, tensor] = model.parameters()[n];
    moved.emplace_back(name, tensor.detach().to(device, is_gate(specs[n].role) ? at::kFloat : dtype));
  }
  return {model.config(), std::move(moved)};
}

}  // namespace openwork
