// The gates that attention may have, as docs/method.md and every door of the program name them. What a gate
// computes is in docs/operator.md; an unknown name is each door's own error, worded for who called it.
#pragma once
#include <optional>
#include <string_view>

namespace openwork {

enum class GateKind {
  kNone,     // dense attention
  kScore,    // g = S + b
  kLogprob,  // g = log P + b
  kIdle,     // g = log P + b beside an idle key of score a
};

// The names find_gate knows, for error lines.
inline constexpr std::string_view kGateNames = "'score', 'logprob' or 'idle'";

constexpr const char* gate_name(GateKind gate) {
  switch (gate) {
    case GateKind::kScore:
      return "score";
    case GateKind::kLogprob:
      return "logprob";
    case GateKind::kIdle:
      return "idle";
    case GateKind::kNone:
      break;
  }
  return "none";
}

// The gate of that name; nothing for any other ("none" too: a caller asks for a gate or does not).
constexpr std::optional<GateKind> find_gate(std::string_view name) {
  for (const GateKind gate : {GateKind::kScore, GateKind::kLogprob, GateKind::kIdle}) {
    if (name == gate_name(gate)) return gate;
  }
  return std::nullopt;
}

}  // namespace openwork
