// Where the boxes and links of a circuit diagram go. Boxes stand in rows; a link that passes rows between its
// ends has a lane of its own through each of them, so that it never runs behind a box nor off the page. Boxes
// and lanes of a row are put in the order, and as near to the places, that their neighbours in the rows below
// and above would have them (the heavier the link, the nearer), in a few sweeps up and down.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "draw/circuit_diagram.h"

namespace openwork::draw {

// Where links of one label arrive, on a box's lower edge.
struct CircuitPort {
  std::string label;
  double x = 0;
};

struct CircuitLayout {
  std::vector<Rect> boxes;                      // by node
  std::vector<std::vector<CircuitPort>> ports;  // by node; those without a label are not listed
  std::vector<std::vector<Point>>
      routes;                  // by edge: from the source's upper edge to the destination's lower one
  std::map<int, double> rows;  // row -> y of its middle; those without nodes are not there
  double width = 0, height = 0;
};

inline constexpr double kCircuitBoxHeight = 26, kCircuitRowGap = 34;

CircuitLayout place_circuit(const CircuitDiagram& diagram);

}  // namespace openwork::draw
