#include "draw/circuit_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace openwork::draw {
namespace {

// An input, three heads in each of twelve layers, logits; links over one to eleven rows.
CircuitDiagram make_tall_circuit() {
  CircuitDiagram diagram;
  diagram.nodes.push_back({"input", 0, 1});
  for (int layer = 0; layer < 12; ++layer) {
    for (int head = 0; head < 3; ++head)
      diagram.nodes.push_back({"L" + std::to_string(layer) + "H" + std::to_string(head), layer + 1,
                               static_cast<double>((7 * layer + 5 * head) % 16)});
  }
  diagram.nodes.push_back({"logits", 13, 1});
  const int count = static_cast<int>(diagram.nodes.size());
  for (int n = 0; n < 60; ++n) {
    const int from = (11 * n) % (count - 4), to = std::min(count - 1, from + 3 + (17 * n) % 33);
    if (diagram.nodes[static_cast<size_t>(from)].row >= diagram.nodes[static_cast<size_t>(to)].row) continue;
    diagram.edges.push_back({from, to, 0.1 + n % 7, to == count - 1 ? "" : std::string(1, "qkv"[n % 3])});
  }
  return diagram;
}

TEST(CircuitLayout, BoxesOfARowDoNotTouch) {
  const CircuitDiagram diagram = make_tall_circuit();
  const CircuitLayout layout = place_circuit(diagram);
  for (size_t a = 0; a < layout.boxes.size(); ++a) {
    for (size_t b = a + 1; b < layout.boxes.size(); ++b) {
      if (diagram.nodes[a].row != diagram.nodes[b].row) continue;
      const auto [left, right] =
          std::minmax(layout.boxes[a], layout.boxes[b],
                      [](const Rect& one, const Rect& other) { return one.x < other.x; });
      EXPECT_LT(left.right(), right.x);
    }
  }
}

TEST(CircuitLayout, LinksStayOnThePageAndRunBehindNoBox) {
  const CircuitDiagram diagram = make_tall_circuit();
  const CircuitLayout layout = place_circuit(diagram);
  ASSERT_EQ(layout.routes.size(), diagram.edges.size());
  for (const std::vector<Point>& route : layout.routes) {
    for (size_t n = 0; n < route.size(); ++n) {
      EXPECT_GE(route[n].x, 0);
      EXPECT_LE(route[n].x, layout.width);
      if (n > 0) {
        EXPECT_LT(route[n].y, route[n - 1].y);  // upwards
      }
    }
    // Odd stretches go through a row, upright: no box may be there.
    for (size_t n = 1; n + 2 < route.size(); n += 2) {
      EXPECT_DOUBLE_EQ(route[n].x, route[n + 1].x);
      for (const Rect& box : layout.boxes) {
        const bool same_row = box.centre().y < route[n].y && box.centre().y > route[n + 1].y;
        EXPECT_FALSE(same_row && route[n].x > box.x && route[n].x < box.right());
      }
    }
  }
}

TEST(CircuitLayout, LinksArriveAtTheInputTheyName) {
  CircuitDiagram diagram;
  diagram.nodes = {{"input", 0, 0}, {"L0H0", 1, 0}, {"logits", 2, 0}};
  diagram.edges = {{0, 1, 1, "v"}, {0, 1, 1, "q"}, {0, 1, -1, "k"}, {1, 2, 1}};
  const CircuitLayout layout = place_circuit(diagram);
  ASSERT_EQ(layout.ports[1].size(), 3u);
  EXPECT_EQ(layout.ports[1][0].label + layout.ports[1][1].label + layout.ports[1][2].label, "qkv");
  EXPECT_DOUBLE_EQ(layout.routes[0].back().x, layout.ports[1][2].x);
  EXPECT_DOUBLE_EQ(layout.routes[1].back().x, layout.ports[1][0].x);
  EXPECT_DOUBLE_EQ(layout.routes[0].back().y, layout.boxes[1].bottom());
  EXPECT_TRUE(layout.ports[2].empty());
}

// What pulls hardest stands nearest: a chain of heavy links is upright.
TEST(CircuitLayout, HeavyLinksAreShort) {
  CircuitDiagram diagram;
  diagram.nodes = {{"input", 0, 0}, {"L0H0", 1, 0}, {"L0H9", 1, 9}, {"L1H0", 2, 0}};
  diagram.edges = {{0, 1, 0.1}, {0, 2, 5}, {2, 3, 5}, {1, 3, 0.1}};
  const CircuitLayout layout = place_circuit(diagram);
  const auto middle = [&](size_t n) { return layout.boxes[n].centre().x; };
  EXPECT_LT(std::abs(middle(2) - middle(3)), std::abs(middle(1) - middle(3)));
  EXPECT_LT(layout.width, 150);  // columns far apart do not make it wide
}

TEST(CircuitLayout, ABoxWithoutLinksDoesNotStandFarOff) {
  CircuitDiagram diagram;
  diagram.nodes = {{"input", 0, 0}, {"L0H0", 1, 0}, {"L0H15", 1, 15}, {"logits", 2, 0}};
  diagram.edges = {{0, 1, 1, "q"}, {1, 3, 1}};
  EXPECT_LT(place_circuit(diagram).width, 150);
}

}  // namespace
}  // namespace openwork::draw
