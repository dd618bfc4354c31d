// The edges that a drawing of a circuit shows: those of the circuit itself where it is one of graph edges,
// else the strongest graph edges among its heads, by attribution.
#pragma once
#include <optional>
#include <vector>

#include "analyze/circuits/circuit.h"

namespace openwork {

struct DrawnEdge {
  GraphNode from, to;
  std::optional<HeadInput> input;  // which input of a head it leads to
  double score = 0;
};

inline constexpr size_t kDrawnEdges = 60;

// The strongest graph edges between the input, these heads and the logits.
std::vector<DrawnEdge> connect_heads(const Transformer& model, const Task& task,
                                     const std::vector<HeadPlace>& heads, size_t most);

std::vector<DrawnEdge> edges_to_draw(const Transformer& model, const Task& task, const Circuit& circuit,
                                     size_t most);

}  // namespace openwork
