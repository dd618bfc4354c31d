// The heads of one or more models side by side, each head a causal heat map from white to dark blue: queries
// downwards, keys to the right. A head's name stands in the empty triangle above its diagonal. Tokens stand
// along the outer panels where they fit.
//   HeadGrid grid;
//   grid.blocks.push_back({.title = "dense", .columns = 8, .panels = panels, .tokens = {"The", "·cat"}});
//   write_figure(draw_head_grid(grid), "heads.svg");
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "draw/cells.h"
#include "draw/figure.h"

namespace openwork::draw {

struct HeadPanel {
  std::string label;                   // L5H1
  Cells cells;                         // without values: a blank head
  std::vector<TokenPair> frames = {};  // cells framed in red
};

struct HeadBlock {
  std::string title, note;  // above the block, and under it: how many heads, how many blank
  int columns = 8;
  std::vector<HeadPanel> panels;         // in reading order
  std::vector<std::string> tokens = {};  // marked for print; empty: none are shown
};

struct HeadGrid {
  Caption caption;
  std::vector<HeadBlock> blocks;
  bool shared_scale = true;          // one scale for all heads, with a colour bar; else each head its own
  std::optional<double> scale_high;  // where the scale ends; else at the largest cell
  Shade shade = Shade::kSquareRoot;
  std::string value_name = "attention";
  std::string frame_name;  // what red frames mean; empty: no key
  double panel = 0;        // points a side; 0: what fits well
};

Figure draw_head_grid(const HeadGrid& grid);

// The scale that draw_head_grid uses for all heads together.
ColourScale shared_scale(const HeadGrid& grid);

// Columns for a whole model, so that every row holds whole layers and the block is about square.
int choose_columns(int64_t layers, int64_t heads);

}  // namespace openwork::draw
