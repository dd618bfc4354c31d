// A circuit as nodes and weighted edges on a grid: heads by layer (bottom to top) and column, MLPs beside
// them, the input below and the logits above. Edges are curves whose width and strength follow their size; a
// negative weight is orange, a positive one blue.
//   CircuitDiagram diagram;
//   diagram.nodes = {{"input", 0, 0}, {"L0H1", 1, 1}, {"logits", 2, 0}};     // name, row from below, column
//   diagram.edges = {{0, 1, 0.4, "q"}, {1, 2, -0.2}};
//   write_figure(draw_circuit_diagram(diagram), "circuit.svg");
#pragma once
#include <string>
#include <vector>

#include "draw/figure.h"

namespace openwork::draw {

struct CircuitNode {
  std::string name;
  int row = 0;        // from below; rows without nodes are left out
  double column = 0;  // where it would like to stand between the least and the largest; rows keep this order
  double weight = 1;  // 0 .. 1: how strongly it is filled
  std::string note = {};  // small, under the name: a role, a class
};

struct CircuitEdge {
  int from = 0, to = 0;  // indices of nodes
  double weight = 1;     // any size; the largest is drawn thickest
  std::string label = {};
};

struct CircuitDiagram {
  Caption caption;
  double width = 0;  // 0: what the widest row needs
  std::vector<CircuitNode> nodes;
  std::vector<CircuitEdge> edges;
  std::vector<std::string> row_names;  // "input", "layer 0", ...; may be empty
};

Figure draw_circuit_diagram(const CircuitDiagram& diagram);

}  // namespace openwork::draw
