// Figures of circuits: the faithfulness curves of all models in one chart, and a diagram of each circuit,
// heads by layer with the edges between them, weighted.
#pragma once
#include <string>
#include <vector>

#include "analyze/circuits/circuit.h"
#include "draw/figure.h"

namespace openwork {

struct CircuitPicture {
  std::string name;  // of the model
  Circuit circuit;
  std::vector<DrawnEdge> edges;
};

draw::Figure draw_circuits(const std::vector<CircuitPicture>& models, const CircuitSettings& settings,
                           const std::string& task, const std::string& protocol);

}  // namespace openwork
