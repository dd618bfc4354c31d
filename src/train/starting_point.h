// What a run of training starts from: a model's parameters with gates put on every head, or taken off.
#pragma once
#include <optional>

#include "model/transformer.h"

namespace openwork {

struct StartingPoint {
  ModelConfig config;
  NamedTensors parameters;
  NamedTensors origin = {};  // what a compact difference is counted from; empty: the parameters
};

// The model with gates of a kind on every head: those it has where it has that kind and no number is given.
// `idle` is of the gate idle alone.
StartingPoint put_gates(const Transformer& base, GateKind gate, std::optional<double> bias,
                        std::optional<double> idle = std::nullopt);
StartingPoint remove_gates(const Transformer& base);

// Where a bias starts when nobody says: 5 for idle and logprob (an edge is open when P > exp(-5)), 4 for
// score.
double default_gate_bias(GateKind gate);
inline constexpr double kDefaultIdle = 5;  // and the score of the idle key

// The gates' own numbers stay float32.
Transformer move_to(const Transformer& model, at::ScalarType dtype, const at::Device& device);

}  // namespace openwork
