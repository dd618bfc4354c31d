// A circuit of graph edges as MIB writes it: {"cfg", "nodes": {name: {"in_graph"}}, "edges": {name: {"score",
// "in_graph"}}}, every edge of the model with its score, `in_graph` those of the circuit and the nodes they
// join.
#pragma once
#include <nlohmann/json.hpp>

#include "analyze/circuits/circuit.h"

namespace openwork {

nlohmann::json to_mib(const Circuit& circuit);  // of graph edges

}  // namespace openwork
