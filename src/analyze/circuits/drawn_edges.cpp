#include "analyze/circuits/drawn_edges.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analyze/circuits/edge_runner.h"

namespace openwork {
namespace {

DrawnEdge draw_edge(const EdgeGraph& graph, const GraphEdge& edge, double score) {
  return {graph.source_node(edge.source), graph.destination_node(edge.destination),
          graph.input_of(edge.destination), score};
}

}  // namespace

std::vector<DrawnEdge> connect_heads(const Transformer& model, const Task& task,
                                     const std::vector<HeadPlace>& heads, size_t most) {
  AblationRunner ablation(model, task, AblationKind::kInterchange);
  EdgeRunner runner(model, task, ablation);
  const EdgeGraph& graph = runner.graph();
  const Tensor scores = runner.score_edges(1).contiguous();  // [destinations, sources]
  std::set<int64_t> sources = {0};
  std::vector<int64_t> destinations = {graph.logits()};
  for (const HeadPlace& head : heads) {
    sources.insert(graph.head_source(head.layer, head.head));
    for (const HeadInput input : {HeadInput::kQuery, HeadInput::kKey, HeadInput::kValue})
      destinations.push_back(graph.head_destination(head.layer, input, head.head));
  }
  std::vector<DrawnEdge> edges;
  for (const int64_t destination : destinations) {
    for (const int64_t source : sources) {
      if (source >= graph.visible_sources(destination)) continue;
      edges.push_back(draw_edge(graph, {source, destination},
                                scores.data_ptr<double>()[destination * graph.sources() + source]));
    }
  }
  std::stable_sort(edges.begin(), edges.end(), [](const DrawnEdge& a, const DrawnEdge& b) {
    return std::abs(a.score) > std::abs(b.score);
  });
  if (edges.size() > most) edges.resize(most);
  return edges;
}

std::vector<DrawnEdge> edges_to_draw(const Transformer& model, const Task& task, const Circuit& circuit,
                                     size_t most) {
  if (!circuit.graph) return connect_heads(model, task, circuit.heads(), most);
  std::vector<DrawnEdge> edges;
  for (size_t n = 0; n < circuit.edges.size() && n < most; ++n)
    edges.push_back(draw_edge(*circuit.graph, circuit.edges[n], circuit.scores[n]));
  return edges;
}

}  // namespace openwork
