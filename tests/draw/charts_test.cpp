// Charts of every kind, painted in every format, and beside the small pictures kept in tests/data/draw.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "draw/circuit_diagram.h"
#include "draw/head_grid.h"
#include "draw/heat_map.h"
#include "draw/line_chart.h"
#include "draw/paired_change.h"
#include "draw/pictures.h"
#include "draw/scatter_matrix.h"
#include "draw/stacked_bars.h"
#include "draw/strip_chart.h"
#include "draw/trace_diagram.h"

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

Cells make_cells(int64_t tokens, int kind) {
  std::vector<float> pattern(static_cast<size_t>(tokens * tokens));
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t key = kind == 0 ? i : kind == 1 ? std::max<int64_t>(0, i - 1) : 0;
    pattern[static_cast<size_t>(i * tokens + key)] = 0.8F;
    for (int64_t j = 0; j <= i; ++j)
      pattern[static_cast<size_t>(i * tokens + j)] += 0.2F / static_cast<float>(i + 1);
  }
  return average_cells(pattern, tokens, tokens);
}

HeadGrid make_head_grid() {
  HeadGrid grid;
  grid.caption.title = "Heads";
  HeadBlock dense{"dense", "6 of 6 heads", 3, {}, {}},
      sparse{"sparse", "2 of 6 heads; 3 blank, left out", 3, {}, {}};
  for (int n = 0; n < 6; ++n)
    dense.panels.push_back(
        {"L" + std::to_string(n / 3) + "H" + std::to_string(n % 3), make_cells(10, n % 3), {}});
  sparse.panels = {{"L0H1", make_cells(10, 1), {{5, 4}}}, {"L1H2", {10, 10, {}}, {}}};
  grid.blocks = {dense, sparse};
  return grid;
}

ScatterMatrix make_scatter(size_t points) {
  ScatterMatrix matrix;
  ScatterBlock block{"dense", {"L0H1", "L5H5", "L6H0"}, std::vector<std::vector<float>>(3), {}, {}};
  for (size_t n = 0; n < points; ++n) {
    const double x = std::fmod(0.618034 * static_cast<double>(n), 1.0);
    block.values[0].push_back(static_cast<float>(x));
    block.values[1].push_back(
        static_cast<float>(0.8 * x + 0.2 * std::fmod(0.414214 * static_cast<double>(n), 1.0)));
    block.values[2].push_back(static_cast<float>(x * x * x));
  }
  block.pearson = block.spearman = {{1, 0.93, -0.2}, {0.93, 1, std::nan("")}, {-0.2, std::nan(""), 1}};
  matrix.blocks = {block};
  return matrix;
}

TracePanel make_trace_panel(double strength) {
  TracePanel panel{.title = "model", .caption = "2 heads carry 80 % of key 2 -> query 4: L3H1, L2H0"};
  panel.tokens = {"<s>", "The", "·opposite", "·large", "·is"};
  panel.rows = {"tokens", "layers 0–1", "layers 2–3", "answer"};
  for (int n = 0; n < 5; ++n) panel.boxes.push_back({n, 0, 0.02 * n, {panel.tokens[static_cast<size_t>(n)]}});
  panel.boxes.push_back({3, 1, 0.3 * strength, {"L1F17 ·large", "L0F4", "+ 3 more"}});
  panel.boxes.push_back({2, 2, 0.1, {"L2 error"}});
  panel.boxes.push_back({4, 2, 0.2, {"L3F512 ·small"}});
  panel.boxes.push_back({4, 3, 1, {"·small", "24.1 %"}});
  panel.moves = {{5, 7, 0.2 * strength, {"L2H0 60 %", "L1H1 20 %"}},
                 {5, 8, 0.3 * strength, {"L3H1 71 %"}},
                 {6, 8, -0.1, {"L3H0 90 %"}},
                 {3, 5, 0.1, {}},
                 {7, 8, 0.25, {}},
                 {0, 6, -0.05, {}}};
  panel.key = 3, panel.query = 4;
  return panel;
}

TraceDiagram make_trace() {
  TraceDiagram diagram;
  diagram.caption = {"From tokens to the answer", "5 tokens", "openwork 0.1.0, seed 0."};
  diagram.panels = {make_trace_panel(1), make_trace_panel(0.4)};
  diagram.panels[1].title = "its sparse twin";
  return diagram;
}

struct NamedFigure {
  std::string name;
  Figure figure;
};

std::vector<NamedFigure> make_all() {
  return {{"line_chart", draw_line_chart(make_line_chart())},
          {"training_chart", draw_line_chart(make_training_chart())},
          {"heat_map", draw_heat_map(make_heat_map())},
          {"stacked_bars", draw_stacked_bars(make_bars())},
          {"strip_chart", draw_strip_chart(make_strip())},
          {"paired_change", draw_paired_change(make_change())},
          {"circuit_diagram", draw_circuit_diagram(make_circuit())},
          {"trace_diagram", draw_trace_diagram(make_trace())},
          {"head_grid", draw_head_grid(make_head_grid())},
          {"scatter_matrix", draw_scatter_matrix(make_scatter(300))},
          {"scatter_density", draw_scatter_matrix(make_scatter(20000))}};
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr double kGoldenDpi = 48;
// What a different font or Cairo version may change, seen from a distance; moving one panel changes more.
constexpr double kTolerance = 0.006;

// OPENWORK_UPDATE_GOLDEN=1 writes the pictures anew, to be looked at before they are kept.
TEST(Charts, LookAsTheyDidWhenLastLookedAt) {
  for (const auto& [name, figure] : make_all()) {
    const std::string path = "tests/data/draw/" + name + ".png";
    const std::string now = render_figure(figure, Format::kPng, kGoldenDpi);
    if (std::getenv("OPENWORK_UPDATE_GOLDEN") != nullptr) write_figure(figure, path, kGoldenDpi);
    const Picture golden = decode_png(read_bytes(path)), picture = decode_png(now);
    ASSERT_GT(golden.width, 0) << path << " is missing";
    EXPECT_NEAR(picture.width, golden.width, 0.05 * golden.width) << name;
    EXPECT_NEAR(picture.height, golden.height, 0.05 * golden.height) << name;
    EXPECT_LT(distance(picture, golden), kTolerance) << name;
  }
}

TEST(Charts, APictureThatChangedIsSeenToHaveChanged) {
  const Picture before =
      decode_png(render_figure(draw_head_grid(make_head_grid()), Format::kPng, kGoldenDpi));
  HeadGrid grid = make_head_grid();
  std::swap(grid.blocks[0].panels[0].cells, grid.blocks[0].panels[2].cells);
  std::swap(grid.blocks[0].panels[3].cells, grid.blocks[0].panels[5].cells);
  EXPECT_GT(distance(before, decode_png(render_figure(draw_head_grid(grid), Format::kPng, kGoldenDpi))),
            kTolerance);
  LineChart chart = make_line_chart();
  const Picture line = decode_png(render_figure(draw_line_chart(chart), Format::kPng, kGoldenDpi));
  for (double& y : chart.lines[0].y) y *= 0.4;
  chart.lines[0].low.clear();
  EXPECT_GT(distance(line, decode_png(render_figure(draw_line_chart(chart), Format::kPng, kGoldenDpi))),
            kTolerance);
}

TEST(Charts, SvgIsWellFormedAndNeedsNoFontAndNoOtherFile) {
  for (const auto& [name, figure] : make_all()) {
    const std::string svg = render_figure(figure, Format::kSvg);
    EXPECT_TRUE(is_well_formed(svg)) << name;
    EXPECT_EQ(svg.find("<text"), std::string::npos) << name << ": text is outlined";
    for (size_t at = svg.find("href=\""); at != std::string::npos; at = svg.find("href=\"", at + 1)) {
      const std::string target = svg.substr(at + 6, 5);
      EXPECT_TRUE(target.starts_with("#") || target == "data:") << name << " " << target;
    }
  }
}

TEST(Charts, PdfIsWholeAndEmbedsItsFonts) {
  const std::string pdf = render_figure(draw_line_chart(make_line_chart()), Format::kPdf);
  EXPECT_TRUE(pdf.starts_with("%PDF-"));
  EXPECT_NE(pdf.find("startxref"), std::string::npos);
  EXPECT_NE(pdf.substr(pdf.size() - 8).find("%%EOF"), std::string::npos);
  EXPECT_NE(pdf.find("/FontFile2"), std::string::npos);
}

TEST(Charts, EmptyOnesArePaintedToo) {
  for (const Figure& figure :
       {draw_line_chart({}), draw_heat_map({}), draw_stacked_bars({}), draw_strip_chart({}),
        draw_bar_chart({}), draw_paired_change({}), draw_circuit_diagram({}), draw_trace_diagram({}),
        draw_head_grid({}), draw_scatter_matrix({}), arrange_figures({}, 2)}) {
    EXPECT_GT(decode_png(render_figure(figure, Format::kPng)).width, 0);
    EXPECT_TRUE(is_well_formed(render_figure(figure, Format::kSvg)));
  }
}

// What is cut off at the right edge goes through the margin.
void expect_empty_margin(const Figure& figure, const std::string& what) {
  const Picture picture = decode_png(render_figure(figure, Format::kPng, 72));
  for (int y = 0; y < picture.height; ++y) {
    for (int x = picture.width - 6; x < picture.width; ++x) {
      if (picture.green[picture.index(x, y)] < 1) {
        ADD_FAILURE() << what << ": something at " << x << ", " << y << " of " << picture.width;
        return;
      }
    }
  }
}

TEST(Charts, KeysStayOnANarrowPage) {
  HeadGrid grid = make_head_grid();
  grid.blocks.resize(1);
  grid.blocks[0].panels.resize(1);
  expect_empty_margin(draw_head_grid(grid), "one head");
  grid.frame_name =
      "the 12 strongest moves between tokens of each model (the first key and the token itself aside)";
  expect_empty_margin(draw_head_grid(grid), "key to frames");
  grid.shared_scale = false;
  expect_empty_margin(draw_head_grid(grid), "own scales and key to frames");
  grid.frame_name = "";
  expect_empty_margin(draw_head_grid(grid), "own scales");
  grid.blocks[0].panels.clear();
  expect_empty_margin(draw_head_grid(grid), "no head");
  TraceDiagram trace = make_trace();
  trace.panels.resize(1);
  TracePanel& panel = trace.panels[0];
  panel = {.title = "model",
           .tokens = {"a"},
           .rows = {"tokens", "answer"},
           .boxes = {{0, 0, 0.1, {"a"}}, {0, 1, 1, {"b"}}}};
  expect_empty_margin(draw_trace_diagram(trace), "trace");
  PairedChange change = make_change();
  change.left = "openwork-8m", change.right = "openwork-8m-sparse";
  expect_empty_margin(draw_paired_change(change), "long names");
}

TEST(Charts, ValuesThatAreNoNumbersBreakALineAndNothingElse) {
  LineChart chart = make_line_chart();
  chart.lines[0].y[10] = std::nan("");
  chart.lines[1].high[3] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(is_well_formed(render_figure(draw_line_chart(chart), Format::kSvg)));
  EXPECT_EQ(render_figure(draw_line_chart(chart), Format::kSvg).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace openwork::draw
