// Figures of circuits: the faithfulness curves of all models in one chart, and a diagram of each circuit,
// heads by layer with the edges between them, weighted.
#pragma once
#include <string>
#include <vector>

#include "analyze/circuits/model_circuits.h"
#include "draw/figure.h"

namespace openwork {

// `protocol` is the note under it all.
draw::Figure draw_circuits(const std::vector<ModelCircuits>& models, const CircuitSettings& settings,
                           const std::string& task, const std::string& protocol);

}  // namespace openwork
