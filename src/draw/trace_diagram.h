// One prompt traced, as a picture: its tokens along the bottom, boxes of features above them by token and by
// range of layers, the answer on top; curves are what moves between tokens, with the heads that carry it
// written on them. Width and the size of boxes have one scale over all panels, so that a model stands beside
// its sparse twin; blue raises, orange lowers.
//   TracePanel panel{.title = "openwork-8m", .tokens = {"a", "b"}};
//   panel.rows = {"tokens", "layers 0-3", "answer"};
//   panel.boxes = {{0, 0, 0.2, {"a"}}, {1, 0, 0.1, {"b"}},
//                  {0, 1, 0.4, {"L2F17 a"}}, {1, 2, 1, {"c", "37 %"}}};
//   panel.moves = {{2, 3, 0.3, {"L3H1 60 %"}}};
//   write_figure(draw_trace_diagram({.panels = {panel}}), "trace.svg");
#pragma once
#include <string>
#include <vector>

#include "draw/figure.h"

namespace openwork::draw {

struct TraceBox {
  int column = 0;  // the token's position
  int row = 0;     // from below: 0 the tokens, then ranges of layers, the last the answers; several of one
                   // column and row stand one above the other, the first on top
  double influence = 0;                 // how large and dark it is, against the largest that is not an answer
  std::vector<std::string> lines = {};  // what is in it, strongest first
  bool lowers = false;                  // the answer, by itself: framed as links that do
};

struct TraceMove {
  int from = 0, to = 0;                 // boxes; within a token where their columns are the same
  double weight = 0;                    // signed share of the answers' influence
  std::vector<std::string> heads = {};  // written on it, where there is room
};

struct TracePanel {
  std::string title = {}, caption = {};  // above: the model; the answer in one line
  std::vector<std::string> tokens = {};  // marks, for the columns
  std::vector<std::string> rows = {};    // names, from below
  std::vector<TraceBox> boxes = {};      // every token has one in row 0
  std::vector<TraceMove> moves = {};
  int key = -1, query = -1;  // tokens framed: those the caption speaks of
};

struct TraceDiagram {
  Caption caption;
  std::vector<TracePanel> panels;
  int columns = 0;  // panels in a row; 0: side by side where they stay readable, else one below the other
};

Figure draw_trace_diagram(const TraceDiagram& diagram);

}  // namespace openwork::draw
