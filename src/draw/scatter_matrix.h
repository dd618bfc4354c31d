// Head against head: below the diagonal each pair of heads as a cloud of points (one per causal pair of
// tokens), on it each head's histogram with counts on a logarithmic axis, above it Pearson's and Spearman's
// correlation, larger type for stronger ones. Beyond kMostDots points a cloud is shaded by how many points
// fall into each small square. Models stand one above the other on the same axes.
//   ScatterMatrix matrix;
//   matrix.blocks.push_back({.title = "dense", .names = {"L5H6", "L6H0"}, .values = {a, b},
//                            .pearson = ..., .spearman = ...});
//   write_figure(draw_scatter_matrix(matrix), "scatter.svg");
#pragma once
#include <string>
#include <vector>

#include "draw/figure.h"

namespace openwork::draw {

inline constexpr size_t kMostDots = 10000;

struct ScatterBlock {
  std::string title;
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;              // [name][point], all of one length
  std::vector<std::vector<double>> pearson, spearman;  // [name][name]; NaN where a head is constant
  Colour colour = kSparse;
};

struct ScatterMatrix {
  Caption caption;
  std::vector<ScatterBlock> blocks;
  double high = 0;    // end of every axis; 0: the largest value of all blocks
  double panel = 84;  // points a side
};

// "+0.93", or "none" where a head is constant.
std::string format_correlation(double value, int decimals);

Figure draw_scatter_matrix(const ScatterMatrix& matrix);

}  // namespace openwork::draw
