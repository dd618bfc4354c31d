// Supernodes: a graph's features gathered by what they do in this graph, so that a picture of it can be retold. Nodes
// of one token and one range of layers belong together where they are fed by the same tokens and read, with the same
// sign, by the same nodes: agglomerative clustering (mean linkage) on the cosines of those two vectors, a little nearer
// where nodes are about the same token or speak for the same ones. Errors are groups of their own.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/trace/trace_records.h"

namespace openwork {

// A token of the prompt and the share of what feeds a group that comes from it.
struct FedBy {
  int64_t position = 0;
  double share = 0;
};

struct Supernode {
  TraceNodeKind kind = TraceNodeKind::kFeature;  // of its nodes: features, MLPs or errors
  int64_t position = 0, first_layer = 0, last_layer = 0;
  std::vector<int64_t> nodes = {};  // of the graph, most influential first
  double influence = 0;             // of all of them
  double effect = 0;                // their direct effects on the first target, summed: raises or lowers it
  std::vector<FedBy> fed =
      {};  // by all paths, the largest share first; what errors and biases feed is left out
  std::vector<std::string> about = {};  // tokens that its features fire on, by influence, at most three
  std::vector<std::string>
      says;  // tokens that they speak for, at most three; none where they reach no logit directly

  int64_t left_out = 0;  // nodes more that it had before a stored graph was pruned

  std::string label() const;  // "says 'her', 'she'", "on 'Mary'", "errors of layers 4-5", "MLPs 4-5"
};

// By node: the tokens whose logits its decoder raises most, as text; may be empty.
using NodeWords = std::vector<std::vector<std::string>>;

// How many layers a range has: six ranges at most.
int64_t layers_in_range(int64_t layers);

// By influence, the largest first; every feature, MLP and error is in one.
std::vector<Supernode> group_nodes(const TraceGraph& graph, const NodeLabels& labels, const NodeWords& words);

}  // namespace openwork
