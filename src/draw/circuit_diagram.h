// A circuit as boxes and weighted arrows: heads and MLPs by layer (bottom to top), the input below and the
// logits above. An arrow's width and strength follow its size; a negative weight is orange, a positive one
// blue. Arrows that say which input they lead to (q, k, v) arrive at that letter on the box's lower edge.
// circuit_layout.h says where things go.
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
  int row = 0;            // from below; rows without nodes are left out
  double column = 0;      // where it starts from in its row before its neighbours pull it
  double weight = 1;      // 0 .. 1: how strongly it is filled
  std::string note = {};  // small, under the name: a role, a class
};

struct CircuitEdge {
  int from = 0, to = 0;    // indices of nodes, the second in a higher row
  double weight = 1;       // any size; the largest is drawn thickest
  std::string label = {};  // which input of `to` it is; may be empty
};

struct CircuitDiagram {
  Caption caption;
  double width = 0;  // of the figure, where it is to be wider than it needs
  std::vector<CircuitNode> nodes;
  std::vector<CircuitEdge> edges;
  std::vector<std::string> row_names;  // "input", "layer 0", ...; may be empty
};

Figure draw_circuit_diagram(const CircuitDiagram& diagram);

// Text in boxes, in points.
inline constexpr double kNameSize = 8, kNoteSize = 5.5, kPortSize = 5.5;

}  // namespace openwork::draw
