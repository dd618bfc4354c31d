#include "analyze/trace/moved_from.h"

#include <algorithm>
#include <cmath>

namespace openwork {

std::vector<MovedFrom> find_moved(const TraceGraph& graph, int64_t to) {
  const std::vector<double> parts = parts_in_answer(graph);
  std::vector<double> sums(graph.ids.size(), 0);
  double total = 0;
  for (const TraceLink& link : graph.links) {
    const TraceNode &source = graph.nodes[static_cast<size_t>(link.source)],
                    &target = graph.nodes[static_cast<size_t>(link.target)];
    if (target.position != to || source.position >= to || source.kind == TraceNodeKind::kBias) continue;
    for (const HeadShare& head : link.heads) {
      const double part = std::abs(head.weight) * parts[static_cast<size_t>(link.target)];
      sums[static_cast<size_t>(source.position)] += part;
      total += part;
    }
  }
  std::vector<MovedFrom> moved;
  for (size_t n = 0; n < sums.size(); ++n) {
    if (sums[n] > 0) moved.push_back({static_cast<int64_t>(n), sums[n] / total});
  }
  std::stable_sort(moved.begin(), moved.end(),
                   [](const MovedFrom& a, const MovedFrom& b) { return a.share > b.share; });
  return moved;
}

int64_t choose_source(const std::vector<MovedFrom>& moved, int64_t first, int64_t to) {
  for (const MovedFrom& from : moved) {
    if (from.position >= first) return from.position;
  }
  return moved.empty() ? to - 1 : moved.front().position;
}

}  // namespace openwork
