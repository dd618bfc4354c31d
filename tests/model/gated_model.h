// Gates on the tiny fixtures: a number per head and layer, so that some edges of most heads are open.
#pragma once
#include <ATen/ATen.h>

#include <filesystem>
#include <limits>
#include <map>

#include "model/architecture.h"
#include "model/load.h"

namespace openwork {

// Biases from 1.5 to 3.5, of gate `score` from -0.5 to 0.5; idle scores from -1 to 3, of layer 0 one
// -infinity, of the last one +infinity.
inline at::Tensor made_up_gate(const ParameterSpec& spec, const ModelConfig& config) {
  const int64_t heads = spec.shape.front();
  const at::Tensor steps =
      (at::arange(heads, at::kFloat) * 5 + static_cast<double>(spec.layer) * 3).remainder(7) / 6;
  if (spec.role == Role::kGateBias) return config.gate == GateKind::kScore ? steps - 0.5 : 1.5 + 2 * steps;
  at::Tensor idle = 4 * steps - 1;
  if (spec.layer == 0) idle[1] = -std::numeric_limits<float>::infinity();
  if (spec.layer == config.layers - 1) idle[heads - 1] = std::numeric_limits<float>::infinity();
  return idle;
}

// A fixture with gates of a kind, whatever it has itself.
inline Transformer load_gated(const std::filesystem::path& path, GateKind kind,
                              const LoadOptions& options = {}) {
  const Transformer own = load_model(path, options);
  ModelConfig config = own.config();
  config.gate = kind;
  std::map<std::string, at::Tensor> weights(own.parameters().begin(), own.parameters().end());
  NamedTensors parameters;
  for (const ParameterSpec& spec : list_parameters(architecture_named(config.architecture, "test"), config)) {
    parameters.emplace_back(spec.name,
                            is_gate(spec.role) ? made_up_gate(spec, config) : weights.at(spec.name));
  }
  Transformer model(config, std::move(parameters));
  if (options.trainable) model.require_grad(true);
  return model;
}

}  // namespace openwork
