#include "draw/circuit_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace openwork::draw {
namespace {

constexpr double kGap = 12, kLane = 5, kLaneGap = 3, kLeastBox = 40, kMargin = 5;
constexpr int kSweeps = 12;

// A box or a lane in a row.
struct Slot {
  size_t row = 0;
  double width = 0, x = 0;  // x of its middle
  bool lane = false;
};
struct Link {
  size_t below = 0, above = 0;  // slots in neighbouring rows
  double weight = 0;
};

class Placer {
 public:
  explicit Placer(const CircuitDiagram& diagram) : diagram_(diagram) {
    for (const CircuitNode& node : diagram.nodes) row_index_.try_emplace(node.row, 0);
    size_t next = 0;
    for (auto& [row, index] : row_index_) index = next++;
    rows_.resize(next);
    box_width_ = kLeastBox;
    for (const CircuitNode& node : diagram.nodes) {
      box_width_ = std::max({box_width_, measure_text(node.name, {.size = kNameSize}).width + 2 * kMargin,
                             measure_text(node.note, {.size = kNoteSize}).width + 2 * kMargin});
    }
    for (const CircuitNode& node : diagram.nodes)
      add_slot({.row = row_index_.at(node.row), .width = box_width_, .x = node.column * (box_width_ + kGap)});
    for (const CircuitEdge& edge : diagram.edges) add_chain(edge);
  }

  CircuitLayout place() {
    for (size_t row = 0; row < rows_.size(); ++row) settle(row, wanted_as_they_are(row));
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const bool last = sweep + 1 == kSweeps;
      for (size_t n = 0; n < rows_.size(); ++n) {
        const size_t row = sweep % 2 == 0 ? n : rows_.size() - 1 - n;
        settle(row, wanted_by_neighbours(row, last || sweep % 2 == 0, last || sweep % 2 == 1));
      }
    }
    CircuitLayout layout;
    place_boxes(layout);
    place_routes(layout);
    return layout;
  }

 private:
  size_t add_slot(const Slot& slot) {
    slots_.push_back(slot);
    rows_[slot.row].push_back(slots_.size() - 1);
    return slots_.size() - 1;
  }

  // The lanes between an edge's ends, one chain for all edges with the same ends.
  void add_chain(const CircuitEdge& edge) {
    const auto from = static_cast<size_t>(edge.from), to = static_cast<size_t>(edge.to);
    const auto [at, fresh] = chains_.try_emplace({from, to});
    std::vector<size_t>& chain = at->second;
    if (fresh) {
      chain.push_back(from);
      const double rise = static_cast<double>(slots_[to].row) - static_cast<double>(slots_[from].row);
      for (size_t row = slots_[from].row + 1; row < slots_[to].row; ++row) {
        const double share = static_cast<double>(row - slots_[from].row) / rise;
        chain.push_back(add_slot({.row = row,
                                  .width = kLane,
                                  .x = slots_[from].x + share * (slots_[to].x - slots_[from].x),
                                  .lane = true}));
      }
      chain.push_back(to);
    }
    for (size_t n = 0; n + 1 < chain.size(); ++n)
      links_.push_back({chain[n], chain[n + 1], std::abs(edge.weight)});
  }

  std::vector<double> wanted_as_they_are(size_t row) const {
    std::vector<double> wanted;
    for (const size_t slot : rows_[row]) wanted.push_back(slots_[slot].x);
    return wanted;
  }

  // The middle of all that has links: what has none goes there.
  double find_middle() const {
    double sum = 0;
    for (const Link& link : links_) sum += slots_[link.below].x + slots_[link.above].x;
    return links_.empty() ? 0 : sum / (2 * static_cast<double>(links_.size()));
  }

  bool has_links(size_t slot) const {
    return std::any_of(links_.begin(), links_.end(),
                       [&](const Link& link) { return link.below == slot || link.above == slot; });
  }

  // The weighted mean of the neighbours' places; where it has none on this side, where it stands.
  std::vector<double> wanted_by_neighbours(size_t row, bool below, bool above) const {
    std::map<size_t, std::pair<double, double>> sums;  // slot -> weighted places, weights
    const auto pull = [&](size_t slot, size_t neighbour, double weight) {
      const double force = weight + 1e-9;
      sums[slot].first += force * slots_[neighbour].x, sums[slot].second += force;
    };
    for (const Link& link : links_) {
      if (below && slots_[link.above].row == row) pull(link.above, link.below, link.weight);
      if (above && slots_[link.below].row == row) pull(link.below, link.above, link.weight);
    }
    std::vector<double> wanted;
    for (const size_t slot : rows_[row]) {
      const auto sum = sums.find(slot);
      wanted.push_back(sum != sums.end() ? sum->second.first / sum->second.second
                       : has_links(slot) ? slots_[slot].x
                                         : find_middle());
    }
    return wanted;
  }

  double distance(size_t left, size_t right) const {
    const bool lanes = slots_[left].lane && slots_[right].lane;
    return (slots_[left].width + slots_[right].width) / 2 + (lanes ? kLaneGap : kGap);
  }

  // Puts a row's slots in the order of the places they want, each its distance from the last: pushed to the
  // right where they would touch, and to the left; the mean of both.
  void settle(size_t row, const std::vector<double>& wanted) {
    std::vector<size_t>& members = rows_[row];
    std::vector<size_t> order(members.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
    std::vector<size_t> sorted;
    std::vector<double> right, left;
    for (const size_t n : order) sorted.push_back(members[n]), right.push_back(wanted[n]);
    left = right;
    for (size_t n = 1; n < sorted.size(); ++n)
      right[n] = std::max(right[n], right[n - 1] + distance(sorted[n - 1], sorted[n]));
    for (size_t n = sorted.size(); n-- > 1;)
      left[n - 1] = std::min(left[n - 1], left[n] - distance(sorted[n - 1], sorted[n]));
    for (size_t n = 0; n < sorted.size(); ++n) slots_[sorted[n]].x = (left[n] + right[n]) / 2;
    members = sorted;
  }

  double row_middle(size_t row) const {  // from above; row 0 is the lowest
    return static_cast<double>(rows_.size() - 1 - row) * (kCircuitBoxHeight + kCircuitRowGap) +
           kCircuitBoxHeight / 2;
  }

  void place_boxes(CircuitLayout& layout) {
    double least = 0, most = 0;
    for (size_t n = 0; n < slots_.size(); ++n) {
      const double left = slots_[n].x - slots_[n].width / 2, right = left + slots_[n].width;
      least = n == 0 ? left : std::min(least, left);
      most = n == 0 ? right : std::max(most, right);
    }
    for (Slot& slot : slots_) slot.x -= least;
    layout.width = most - least;
    for (const auto& [row, index] : row_index_) layout.rows[row] = row_middle(index);
    layout.height = rows_.empty() ? 0 : row_middle(0) + kCircuitBoxHeight / 2;
    for (size_t n = 0; n < diagram_.nodes.size(); ++n) {
      layout.boxes.push_back({slots_[n].x - box_width_ / 2, row_middle(slots_[n].row) - kCircuitBoxHeight / 2,
                              box_width_, kCircuitBoxHeight});
    }
  }

  // Places along a box's edge for links that come from, or go to, these x: in their order, evenly spread.
  static std::map<double, double> spread_ends(const Rect& box, std::vector<double> others) {
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    std::map<double, double> places;
    for (size_t n = 0; n < others.size(); ++n) {
      const double share = (static_cast<double>(n) + 1) / (static_cast<double>(others.size()) + 1);
      places[others[n]] = box.x + share * box.width;
    }
    return places;
  }

  // A head's inputs stand in the order q, k, v; other labels after them, by name.
  static std::vector<CircuitPort> list_ports(const Rect& box, std::vector<std::string> labels) {
    const auto key = [](const std::string& label) {
      return std::pair(std::string("qkv").find(label.substr(0, 1)), label);
    };
    std::sort(labels.begin(), labels.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
    std::vector<CircuitPort> ports;
    for (size_t n = 0; n < labels.size(); ++n) {
      const double share = (static_cast<double>(n) + 1) / (static_cast<double>(labels.size()) + 1);
      ports.push_back({labels[n], box.x + share * box.width});
    }
    return ports;
  }

  void place_routes(CircuitLayout& layout) const {
    const size_t nodes = diagram_.nodes.size();
    std::vector<std::vector<double>> above(nodes), below(nodes);  // x of the next slot of each link out, in
    std::vector<std::vector<std::string>> labels(nodes);
    for (const CircuitEdge& edge : diagram_.edges) {
      const std::vector<size_t>& chain = chain_of(edge);
      above[chain.front()].push_back(slots_[chain[1]].x);
      if (edge.label.empty()) {
        below[chain.back()].push_back(slots_[chain[chain.size() - 2]].x);
      } else {
        labels[chain.back()].push_back(edge.label);
      }
    }
    for (size_t n = 0; n < nodes; ++n) layout.ports.push_back(list_ports(layout.boxes[n], labels[n]));
    for (const CircuitEdge& edge : diagram_.edges) {
      const std::vector<size_t>& chain = chain_of(edge);
      const Rect &from = layout.boxes[chain.front()], &to = layout.boxes[chain.back()];
      std::vector<Point> route = {{spread_ends(from, above[chain.front()]).at(slots_[chain[1]].x), from.y}};
      for (size_t n = 1; n + 1 < chain.size(); ++n) {
        const Slot& lane = slots_[chain[n]];
        route.push_back({lane.x, row_middle(lane.row) + kCircuitBoxHeight / 2});
        route.push_back({lane.x, row_middle(lane.row) - kCircuitBoxHeight / 2});
      }
      double x = 0;
      if (edge.label.empty()) {
        x = spread_ends(to, below[chain.back()]).at(slots_[chain[chain.size() - 2]].x);
      } else {
        for (const CircuitPort& port : layout.ports[chain.back()]) {
          if (port.label == edge.label) x = port.x;
        }
      }
      route.push_back({x, to.bottom()});
      layout.routes.push_back(std::move(route));
    }
  }

  const std::vector<size_t>& chain_of(const CircuitEdge& edge) const {
    return chains_.at({static_cast<size_t>(edge.from), static_cast<size_t>(edge.to)});
  }

  const CircuitDiagram& diagram_;
  double box_width_ = 0;
  std::map<int, size_t> row_index_;        // a node's row -> how many are below it
  std::vector<Slot> slots_;                // the nodes, then the lanes
  std::vector<std::vector<size_t>> rows_;  // slots of each row, from left to right
  std::vector<Link> links_;
  std::map<std::pair<size_t, size_t>, std::vector<size_t>>
      chains_;  // (from, to) -> slots from one to the other
};

}  // namespace

CircuitLayout place_circuit(const CircuitDiagram& diagram) {
  return Placer(diagram).place();
}

}  // namespace openwork::draw
