// Traced prompts of all sizes: nothing may stand on anything else, and panels of the same prompt share a
// grid.
#include "draw/trace_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace openwork::draw {
namespace {

// Boxes and moves by a fixed rule: no two boxes in one cell, moves from earlier and lower to later and
// higher.
TracePanel make_panel(int tokens, int bands, int step) {
  TracePanel panel{.title = "model", .caption = "caption"};
  panel.rows.push_back("tokens");
  for (int n = 0; n < bands; ++n) panel.rows.push_back("layers");
  panel.rows.push_back("answer");
  for (int n = 0; n < tokens; ++n) {
    panel.tokens.push_back(n % 3 == 0 ? "·the" : "·opposite");
    panel.boxes.push_back({n, 0, 0.01, {panel.tokens.back()}});
  }
  std::set<std::pair<int, int>> taken;
  for (int n = 0; n < 16; ++n) {
    const int column = n % 3 == 0 ? tokens - 1 : n * step % tokens, row = 1 + n * 5 % bands;
    if (!taken.emplace(column, row).second) continue;
    panel.boxes.push_back({column, row, 0.3 / (n + 1), {"L13F512 ·size", "L12F4", "+ 3 more"}});
  }
  panel.boxes.push_back({tokens - 1, bands + 1, 1, {"·small", "24.1 %"}});
  const int count = static_cast<int>(panel.boxes.size());
  for (int a = 0; a < count && panel.moves.size() < 28; ++a) {
    for (int b = a + 1; b < count && panel.moves.size() < 28; b += 3) {
      const TraceBox &from = panel.boxes[static_cast<size_t>(a)], &to = panel.boxes[static_cast<size_t>(b)];
      if (from.row >= to.row || from.column > to.column) continue;
      panel.moves.push_back({a, b, (a % 4 ? 0.2 : -0.2) / (b - a), {"L11H7 40 %", "L10H1 12 %", "L9H2 8 %"}});
    }
  }
  return panel;
}

bool touch(const Rect& a, const Rect& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

void expect_apart(const std::vector<Rect>& areas, const std::string& what) {
  for (size_t a = 0; a < areas.size(); ++a) {
    for (size_t b = a + 1; b < areas.size(); ++b)
      EXPECT_FALSE(touch(areas[a], areas[b])) << what << " " << a << " " << b;
  }
}

TEST(TraceLayout, NeitherBoxesNorLabelsTouchForShortAndLongPrompts) {
  for (const int tokens : {2, 9, 16, 17, 50}) {
    for (const int bands : {1, 4, 6}) {
      const TracePanel panel = make_panel(tokens, bands, 7);
      const TraceLayout layout = lay_out_traces({panel}, measure_trace({panel}))[0];
      std::vector<Rect> areas = layout.boxes;
      for (const TraceLabel& label : layout.labels) areas.push_back(label.area);
      const std::string what = std::to_string(tokens) + " tokens, " + std::to_string(bands) + " bands:";
      expect_apart(areas, what);
      for (const Rect& area : areas) {
        EXPECT_GE(area.x, 0) << what;
        EXPECT_GE(area.y, -1e-9) << what;
        EXPECT_LE(area.right(), layout.width + 1e-9) << what;
        EXPECT_LE(area.bottom(), layout.height + 1e-9) << what;
      }
      EXPECT_EQ(layout.turned, tokens > 16) << what;
    }
  }
}

TEST(TraceLayout, StrongestMovesAreLabelledWhereThereIsRoom) {
  const TracePanel panel = make_panel(12, 5, 7);
  const TraceLayout layout = lay_out_traces({panel}, measure_trace({panel}))[0];
  EXPECT_GE(layout.labels.size(), 6u);
  EXPECT_LE(layout.labels.size(), panel.moves.size());
}

TEST(TraceLayout, PanelsOfOnePromptShareTheirGrid) {
  const std::vector<TracePanel> panels = {make_panel(9, 4, 7), make_panel(9, 4, 5)};
  const std::vector<TraceLayout> layouts = lay_out_traces(panels, measure_trace(panels));
  EXPECT_EQ(layouts[0].column_middles, layouts[1].column_middles);
  EXPECT_EQ(layouts[0].row_middles, layouts[1].row_middles);
}

TEST(TraceLayout, AWeakerModelsLinksAreThinnerOnTheSharedScale) {
  std::vector<TracePanel> panels = {make_panel(9, 4, 7), make_panel(9, 4, 7)};
  for (TraceMove& move : panels[1].moves) move.weight /= 10;
  const std::vector<TraceLayout> layouts = lay_out_traces(panels, measure_trace(panels));
  for (size_t n = 0; n < panels[0].moves.size(); ++n)
    EXPECT_GT(layouts[0].curves[n].width, layouts[1].curves[n].width) << n;
}

TEST(TraceLayout, SeveralAnswersStandSideBySide) {
  TracePanel panel = make_panel(9, 3, 7);
  panel.boxes.push_back({8, 4, 1, {"·tiny", "3.0 %"}});
  panel.boxes.push_back({8, 4, 1, {"·little", "1.0 %"}});
  const TraceLayout layout = lay_out_traces({panel}, measure_trace({panel}))[0];
  expect_apart(layout.boxes, "answers");
}

TEST(TraceLayout, InfluenceMakesABoxLarger) {
  TracePanel panel = make_panel(3, 1, 1);
  panel.boxes = {
      {0, 0, 0, {"a"}}, {1, 0, 0, {"b"}}, {2, 0, 0, {"c"}}, {0, 1, 0.4, {"L0F1"}}, {1, 1, 0.01, {"L0F1"}}};
  panel.moves.clear();
  const TraceLayout layout = lay_out_traces({panel}, measure_trace({panel}))[0];
  EXPECT_GT(layout.boxes[3].width * layout.boxes[3].height,
            1.3 * layout.boxes[4].width * layout.boxes[4].height);
}

}  // namespace
}  // namespace openwork::draw
