#include "analyze/trace/supernodes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace openwork {
namespace {

constexpr int64_t kMostRanges = 6;
constexpr size_t kMostInCell = 3;    // groups of features at one token and range of layers
constexpr double kAlike = 0.4;       // groups are joined down to this likeness
constexpr double kSameWords = 0.15;  // what the same token to fire on, or to speak for, adds to it
constexpr double kSpeaks = 0.2;      // of what a group passes on, to logits directly: then it says something,
constexpr double kAgree = 0.25;      // where its nodes agree so far on what
constexpr size_t kMostWords = 3;
using Vector = std::map<int64_t, double>;

// A vector of length 1 (or 0), in order of its entries: many are compared.
using Direction = std::vector<std::pair<int64_t, double>>;

Direction point_along(const Vector& vector) {
  double squares = 0;
  for (const auto& [at, value] : vector) squares += value * value;
  Direction direction(vector.begin(), vector.end());
  for (auto& [at, value] : direction) value /= std::max(std::sqrt(squares), 1e-30);
  return direction;
}

double cosine(const Direction& a, const Direction& b) {
  double sum = 0;
  for (auto one = a.begin(), other = b.begin(); one != a.end() && other != b.end();) {
    if (one->first == other->first) {
      sum += one++->second * other++->second;
    } else {
      one->first < other->first ? ++one : ++other;
    }
  }
  return sum;
}

// What feeds and what reads every node.
struct Neighbours {
  std::vector<Vector> fed;    // by node: share of each token in what feeds it, by all paths
  std::vector<Vector> reads;  // by node: its part in the answer by way of each reader, signed
};

// Links go up in layers: nodes are taken in that order.
std::vector<Vector> feed_nodes(const TraceGraph& graph) {
  std::vector<std::vector<size_t>> into(graph.nodes.size());
  for (size_t n = 0; n < graph.links.size(); ++n)
    into[static_cast<size_t>(graph.links[n].target)].push_back(n);
  std::vector<size_t> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return graph.nodes[a].layer < graph.nodes[b].layer; });
  std::vector<Vector> fed(graph.nodes.size());
  for (const size_t n : order) {
    const TraceNode& node = graph.nodes[n];
    if (node.kind == TraceNodeKind::kEmbedding) fed[n][node.position] = 1;
    double sum = 0;
    for (const size_t link : into[n]) sum += std::abs(graph.links[link].weight);
    for (const size_t link : into[n]) {
      const double share = std::abs(graph.links[link].weight) / sum;
      for (const auto& [token, part] : fed[static_cast<size_t>(graph.links[link].source)])
        fed[n][token] += share * part;
    }
  }
  return fed;
}

Neighbours find_neighbours(const TraceGraph& graph) {
  Neighbours found{feed_nodes(graph), std::vector<Vector>(graph.nodes.size())};
  const std::vector<double> parts = parts_in_answer(graph);
  for (const TraceLink& link : graph.links)
    found.reads[static_cast<size_t>(link.source)][link.target] +=
        link.weight * parts[static_cast<size_t>(link.target)];
  return found;
}

// Nodes of one token and range of layers, joined while they are alike.
class Cell {
 public:
  Cell(const Neighbours& neighbours, const NodeLabels& labels, const NodeWords& words,
       std::vector<size_t> nodes)
      : nodes_(std::move(nodes)), likeness_(nodes_.size(), std::vector<double>(nodes_.size(), 0)) {
    std::vector<Direction> fed, reads;
    for (const size_t n : nodes_)
      fed.push_back(point_along(neighbours.fed[n])), reads.push_back(point_along(neighbours.reads[n]));
    for (size_t a = 0; a < nodes_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const double like = (cosine(fed[a], fed[b]) + cosine(reads[a], reads[b])) / 2;
        likeness_[a][b] = likeness_[b][a] = like + share_words(labels, words, nodes_[a], nodes_[b]);
      }
    }
  }

  std::vector<std::vector<size_t>> join() const {
    std::vector<std::vector<size_t>> groups;  // into nodes_
    for (size_t n = 0; n < nodes_.size(); ++n) groups.push_back({n});
    while (groups.size() > 1) {
      size_t first = 0, second = 1;
      double most = -2;
      for (size_t a = 0; a < groups.size(); ++a) {
        for (size_t b = a + 1; b < groups.size(); ++b) {
          if (const double mean = mean_likeness(groups[a], groups[b]); mean > most)
            most = mean, first = a, second = b;
        }
      }
      if (most < kAlike && groups.size() <= kMostInCell) break;
      groups[first].insert(groups[first].end(), groups[second].begin(), groups[second].end());
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(second));
    }
    for (auto& group : groups)
      for (size_t& n : group) n = nodes_[n];
    return groups;
  }

 private:
  static double share_words(const NodeLabels& labels, const NodeWords& words, size_t i, size_t j) {
    double more = 0;
    if (i < labels.size() && j < labels.size() && !labels[i].empty() && labels[i] == labels[j])
      more += kSameWords;
    if (i < words.size() && j < words.size() && !words[i].empty() && !words[j].empty() &&
        words[i].front() == words[j].front())
      more += kSameWords;
    return more;
  }

  double mean_likeness(const std::vector<size_t>& a, const std::vector<size_t>& b) const {
    double sum = 0;
    for (const size_t m : a)
      for (const size_t n : b) sum += likeness_[m][n];
    return sum / static_cast<double>(a.size() * b.size());
  }

  std::vector<size_t> nodes_;
  std::vector<std::vector<double>> likeness_;
};

// The words of most weight, the largest first; none of less than `least`.
std::vector<std::string> heaviest(const std::map<std::string, double>& weights, double least) {
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [word, weight] : weights) {
    if (weight >= least) order.emplace_back(-weight, word);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> words;
  for (size_t n = 0; n < order.size() && n < kMostWords; ++n) words.push_back(order[n].second);
  return words;
}

void describe_words(const TraceGraph& graph, const NodeLabels& labels, const NodeWords& words,
                    const Neighbours& neighbours, Supernode& group) {
  std::map<std::string, double> about, says;
  double passed = 0, spoken = 0;
  for (const int64_t node : group.nodes) {
    const auto n = static_cast<size_t>(node);
    const double influence = graph.nodes[n].influence;
    if (n < labels.size() && !labels[n].empty()) about[labels[n]] += influence;
    double direct = 0;
    for (const auto& [reader, part] : neighbours.reads[n]) {
      passed += std::abs(part);
      if (graph.nodes[static_cast<size_t>(reader)].kind == TraceNodeKind::kLogit) direct += std::abs(part);
    }
    spoken += direct;
    for (size_t w = 0; n < words.size() && w < words[n].size(); ++w)
      says[words[n][w]] += direct / static_cast<double>(w + 1);
  }
  group.about = heaviest(about, 0);
  const bool late = 2 * group.first_layer >= graph.layers;  // what early features write is for others to read
  if (late && passed > 0 && spoken / passed >= kSpeaks) group.says = heaviest(says, kAgree * spoken);
}

Supernode describe_group(const TraceGraph& graph, const NodeLabels& labels, const NodeWords& words,
                         const Neighbours& neighbours, const std::vector<size_t>& nodes) {
  const TraceNode& one = graph.nodes[nodes.front()];
  Supernode group;
  group.kind = one.kind, group.position = one.position;
  group.first_layer = group.last_layer = one.layer;
  const auto answer = static_cast<int64_t>(first_target(graph));
  Vector fed;
  double sum = 0;
  for (const size_t n : nodes) {
    const TraceNode& node = graph.nodes[n];
    group.nodes.push_back(static_cast<int64_t>(n));
    group.first_layer = std::min(group.first_layer, node.layer);
    group.last_layer = std::max(group.last_layer, node.layer);
    group.influence += node.influence;
    for (const auto& [token, share] : neighbours.fed[n])
      fed[token] += node.influence * share, sum += node.influence * share;
  }
  for (const TraceLink& link : graph.links) {
    if (link.target == answer &&
        std::find(group.nodes.begin(), group.nodes.end(), link.source) != group.nodes.end())
      group.effect += link.weight;
  }
  std::stable_sort(group.nodes.begin(), group.nodes.end(), [&](int64_t a, int64_t b) {
    return graph.nodes[static_cast<size_t>(a)].influence > graph.nodes[static_cast<size_t>(b)].influence;
  });
  for (const auto& [token, share] : fed) {
    if (sum > 0) group.fed.push_back({token, share / sum});
  }
  std::stable_sort(group.fed.begin(), group.fed.end(),
                   [](const FedBy& a, const FedBy& b) { return a.share > b.share; });
  if (group.kind == TraceNodeKind::kFeature) describe_words(graph, labels, words, neighbours, group);
  return group;
}

std::string quote(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "'" : ", '") + word + "'";
  return text;
}

}  // namespace

std::string Supernode::label() const {
  const std::string layers = first_layer == last_layer
                                 ? std::to_string(first_layer)
                                 : std::to_string(first_layer) + "-" + std::to_string(last_layer);
  if (kind == TraceNodeKind::kError) return "errors of layers " + layers;
  if (kind == TraceNodeKind::kMlp) return "MLPs " + layers;
  if (!says.empty()) return "says " + quote(says);
  return about.empty() ? "features of layers " + layers : "on " + quote(about);
}

int64_t layers_in_range(int64_t layers) {
  return std::max<int64_t>(1, (layers + kMostRanges - 1) / kMostRanges);
}

std::vector<Supernode> group_nodes(const TraceGraph& graph, const NodeLabels& labels,
                                   const NodeWords& words) {
  const Neighbours neighbours = find_neighbours(graph);
  std::map<std::tuple<int64_t, int64_t, bool>, std::vector<size_t>>
      cells;  // token, range of layers, errors or not
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    const bool error = node.kind == TraceNodeKind::kError;
    if (error || node.kind == TraceNodeKind::kFeature || node.kind == TraceNodeKind::kMlp)
      cells[{node.position, node.layer / layers_in_range(graph.layers), error}].push_back(n);
  }
  std::vector<Supernode> groups;
  for (const auto& [cell, nodes] : cells) {
    const bool whole =
        graph.nodes[nodes.front()].kind != TraceNodeKind::kFeature;  // MLPs and errors stay together
    const auto parts =
        whole ? std::vector<std::vector<size_t>>(1, nodes) : Cell(neighbours, labels, words, nodes).join();
    for (const auto& part : parts) groups.push_back(describe_group(graph, labels, words, neighbours, part));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Supernode& a, const Supernode& b) { return a.influence > b.influence; });
  return groups;
}

}  // namespace openwork
