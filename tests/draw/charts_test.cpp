// Charts of every kind, painted in every format.
#include <gtest/gtest.h>

#include <cmath>

#include "draw/circuit_diagram.h"
#include "draw/heat_map.h"
#include "draw/line_chart.h"
#include "draw/paired_change.h"
#include "draw/stacked_bars.h"
#include "draw/strip_chart.h"

namespace openwork::draw {
namespace {

LineChart make_line_chart() {
  LineChart chart;
  chart.caption = {"Copy task", "mean ablation, 24 prompts",
                   "Bands: 95 % over prompts. openwork 0.1.0, seed 0."};
  chart.x_name = "heads kept", chart.y_name = "faithfulness";
  chart.y_low = 0, chart.y_high = 1.05;
  Line dense{.name = "dense", .colour = kDense}, sparse{.name = "sparse", .colour = kSparse};
  for (int k = 0; k <= 64; ++k) {
    const double d = 1 - std::exp(-k / 20.0), s = 1 - std::exp(-k / 4.0);
    dense.x.push_back(k), dense.y.push_back(d), dense.low.push_back(d - 0.05),
        dense.high.push_back(std::min(1.0, d + 0.05));
    sparse.x.push_back(k), sparse.y.push_back(s), sparse.low.push_back(s - 0.03),
        sparse.high.push_back(std::min(1.0, s + 0.03));
  }
  chart.lines = {dense, sparse};
  chart.marks.push_back({.x = {}, .y = 0.9, .label = "90 %"});
  chart.marks.push_back({.x = 10, .y = 0.9, .label = "10 heads", .colour = kSparse});
  return chart;
}

LineChart make_training_chart() {
  LineChart chart;
  chart.caption.title = "Post-training";
  chart.x_name = "million tokens", chart.y_name = "loss (nats/token)", chart.right_name = "kept edges";
  chart.right_logarithmic = true;
  Line loss{.name = "loss", .colour = kInk}, kept{.name = "kept edges", .colour = kSparse, .on_right = true};
  for (int n = 0; n < 40; ++n) {
    loss.x.push_back(n), loss.y.push_back(3.2 + 0.6 * std::exp(-n / 5.0) + 0.01 * std::sin(n));
    kept.x.push_back(n), kept.y.push_back(0.004 + 0.5 * std::exp(-n / 6.0));
  }
  chart.lines = {loss, kept};
  return chart;
}

HeatMap make_heat_map() {
  HeatMap map;
  map.caption.title = "Effect of each head";
  map.row_title = "layer", map.column_title = "head", map.value_name = "effect";
  for (int n = 0; n < 8; ++n) {
    map.rows.push_back("L" + std::to_string(n)), map.columns.push_back("H" + std::to_string(n));
    map.values.emplace_back();
    for (int m = 0; m < 8; ++m) map.values.back().push_back(std::sin(n * 1.7 + m * m * 0.6) * n / 7);
  }
  map.write_values = true;
  return map;
}

StackedBars make_bars() {
  StackedBars bars;
  bars.caption.title = "Classes by layer";
  bars.x_name = "layer", bars.y_name = "heads";
  bars.parts = {"sink",     "self",       "previous token", "induction", "duplicate",
                "vertical", "horizontal", "local",          "diffuse",   "blank"};
  BarGroup dense{"dense", {}}, sparse{"sparse", {}};
  for (int n = 0; n < 8; ++n) {
    bars.places.push_back(std::to_string(n));
    std::vector<double> counts(10), other(10);
    for (size_t m = 0; m < 8; ++m)
      counts[(m * (static_cast<size_t>(n) + 1)) % 9] += 1,
          other[m % 2 ? 9 : (m + static_cast<size_t>(n)) % 9] += 1;
    dense.heights.push_back(counts), sparse.heights.push_back(other);
  }
  bars.groups = {dense, sparse};
  return bars;
}

StripChart make_strip() {
  StripChart chart;
  chart.caption.title = "Kept edges by head";
  chart.x_name = "layer", chart.y_name = "share of edges", chart.y_logarithmic = true;
  StripSeries series{"sparse", {}, kSparse};
  for (int n = 0; n < 8; ++n) {
    chart.places.push_back(std::to_string(n));
    series.values.emplace_back();
    for (int m = 0; m < 8; ++m)
      series.values.back().push_back(m == 3 ? 0 : std::pow(10.0, -4 + 3 * std::abs(std::sin(n + m * 2.1))));
  }
  chart.series = {series};
  return chart;
}

PairedChange make_change() {
  PairedChange change;
  change.caption.title = "Dense to sparse, 24 prompts";
  for (const char* name : {"peak", "diagonal share", "entropy"}) {
    PairedQuantity quantity{name, {}, {}, "p = 0.0004 (Holm)"};
    for (int n = 0; n < 24; ++n)
      quantity.before.push_back(0.3 + 0.02 * std::sin(n)),
          quantity.after.push_back(0.6 + 0.1 * std::cos(n * 3.0));
    change.quantities.push_back(quantity);
  }
  return change;
}

CircuitDiagram make_circuit() {
  CircuitDiagram diagram;
  diagram.caption.title = "Copy task, 90 %";
  diagram.row_names = {"input", "layer 4", "layer 5", "layer 6", "logits"};
  diagram.nodes = {{"input", 0, 3.5},
                   {"L4H7", 1, 7, 0.2},
                   {"L5H6", 2, 6, 0.9, "previous token"},
                   {"L6H0", 3, 0, 1, "induction"},
                   {"L6H3", 3, 3, 0.8, "induction"},
                   {"logits", 4, 3.5}};
  diagram.edges = {{0, 2, 0.8, "v"},  {0, 1, 0.2, ""}, {2, 3, 1.0, "k"}, {2, 4, 0.7, "k"},
                   {1, 4, -0.2, "q"}, {3, 5, 0.9, ""}, {4, 5, 0.6, ""},  {0, 5, 0.1, ""}};
  return diagram;
}

std::vector<Figure> make_all() {
  return {draw_line_chart(make_line_chart()),  draw_line_chart(make_training_chart()),
          draw_heat_map(make_heat_map()),      draw_stacked_bars(make_bars()),
          draw_strip_chart(make_strip()),      draw_paired_change(make_change()),
          draw_circuit_diagram(make_circuit())};
}

TEST(Charts, EveryKindIsPaintedInEveryFormat) {
  const Figure sheet = arrange_figures(make_all(), 3, {"All charts", "of the drawing room", "a note"});
  EXPECT_EQ(render_figure(sheet, Format::kPng).substr(1, 3), "PNG");
  EXPECT_EQ(render_figure(sheet, Format::kPdf).substr(0, 5), "%PDF-");
  const std::string svg = render_figure(sheet, Format::kSvg);
  EXPECT_TRUE(svg.starts_with("<?xml"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(svg.find("<text"), std::string::npos) << "text is outlined, so that it needs no font";
}

}  // namespace
}  // namespace openwork::draw
