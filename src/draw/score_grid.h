// One attention score as a table: what nodes of the query's token (rows) and of the key's (columns) make together, and
// the sums of rows and columns at its edges. Blue raises the score, orange lowers it.
//   ScoreGrid grid{.title = "L5H1: 8 <- 5, score 3.20", .rows = {"L3F7@8", "the rest"}, .columns = {"T@5", "the rest"}};
//   grid.weights = {{2, 0.5}, {0.4, 0.3}};
//   write_figure(draw_score_grid(grid), "score.svg");
#pragma once
#include <string>
#include <vector>

#include "draw/figure.h"

namespace openwork::draw {

struct ScoreGrid {
  std::string title = {}, caption = {};
  std::vector<std::string> rows = {}, columns = {};  // names, of the query's side and of the key's
  std::vector<std::vector<double>> weights = {};     // [row][column]
};

Figure draw_score_grid(const ScoreGrid& grid);

}  // namespace openwork::draw
