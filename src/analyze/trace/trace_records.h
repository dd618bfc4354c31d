// What tracing one prompt finds (METHOD 5), as plain data: the nodes that make the target's logit, the direct
// effects between them, and the heads that carry each effect from token to token. Made by analyze/trace/trace.h;
// drawn by draw/trace_diagram.h; written as graph JSON by report/trace_graph.h. No torch here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/head_place.h"

namespace openwork {

enum class TraceNodeKind {
  kEmbedding,  // a token's embedding, its learned position with it
  kFeature,    // a transcoder's feature at a token
  kMlp,        // a whole MLP's output at a token, where there are no transcoders
  kError,      // what the transcoders of a layer miss of the MLP's output at a token
  kBias,       // what biases add at a token and layer: of attention, decoders, norms, encoders, logits
  kLogit,      // a target: the logit of a token at the last position
};

struct TraceNode {
  TraceNodeKind kind = TraceNodeKind::kEmbedding;
  int64_t layer = -1;  // -1: embeddings; the number of layers: logits
  int64_t position = 0;
  int64_t feature = -1;  // of a feature: its number; of a logit or an embedding: the token
  double value = 0;  // a feature's activation; a logit; an MLP's share of the first target (trace.h); of an
                     // embedding, error or bias: its direct effect on the first target
  double influence = 0;  // on the targets, over all paths, normalised as circuit-tracer does: in [0, 1]
  double cumulative =
      0;  // share of all influence that nodes at least as influential hold: viewers' "influence"
  double probability = 0;  // of a logit's token

  // L3F512@7, M3@7 (an MLP), E3@7 (an error), T@7 (an embedding), B3@7 (a bias), 412 (a logit: its token's
  // id)
  std::string name() const;
};

// One head's part in an effect: the paths whose last move between tokens it makes.
struct HeadShare {
  HeadPlace head;
  double weight = 0;  // signed; the weights of a link, other_heads with them, sum to the link's
};

// The direct effect of a source on a target, everything between them held fixed.
struct TraceLink {
  int64_t source = 0, target = 0;  // into TraceGraph::nodes
  double weight = 0;
  std::vector<HeadShare> heads;  // largest first by size; empty where source and target share a token
  double other_heads = 0;        // of heads left out because memory is short (TraceSettings::memory): seldom
};

// How far sums of effects are from what they must sum to: |sum - a| / max(|a|, 1), the largest seen.
struct SumCheck {
  double effects = 0;  // over all targets: effects against pre-activation or logit
  double heads = 0;    // over all links between tokens: head shares against the link
  int64_t targets = 0, links = 0;
};

struct TraceGraph {
  std::vector<std::string> tokens;  // of the prompt, as text: filled in by those who have the tokenizer
  std::vector<int64_t> ids;
  int64_t layers = 0, heads = 0;
  std::vector<TraceNode> nodes;  // kept after pruning; the targets last
  std::vector<TraceLink> links;
  int64_t active_features = 0;   // before anything was left out
  int64_t nodes_attributed = 0;  // to which effects were computed (--max-nodes)
  double node_threshold = 0.8, edge_threshold = 0.98;
  SumCheck sums;
};

// By node: what one unit of effect on it is worth to the answer. Times a link's weight it is the link's part
// in what reaches the answer: the share it has of all that reaches its target, times the target's own
// influence.
std::vector<double> parts_in_answer(const TraceGraph& graph);

// Which heads carry what moves from one token to another: over all effects of sources at `from` on targets at
// `to`, each head's absolute shares summed.
struct HeadExplanation {
  int64_t from = 0, to = 0;
  double share = 0.8;  // of the total that `needed` heads make up
  int64_t needed = 0;
  double total = 0;                     // summed absolute shares of all heads
  std::vector<HeadShare> heads;         // absolute, largest first, all that are not 0
  std::vector<HeadShare> signed_heads;  // the same heads, signed shares summed
  std::vector<HeadShare> flows;         // what passes through each head on any move of those effects, signed
};

// A pattern entry's score before softmax, as sums over pairs of nodes: one in the query, one in the key.
struct QueryKeyPair {
  int64_t query_node = 0, key_node = 0;  // into the graph's nodes; -1: all that is not in it
  double weight = 0;
};
struct QueryKeyAttribution {
  HeadPlace head;
  int64_t query = 0, key = 0;
  double score = 0;                 // c q . k
  std::vector<QueryKeyPair> pairs;  // largest first by size
};

// A node or head changed, and by how much the first target's logit changed with it.
struct TraceIntervention {
  std::string node;      // as the user wrote it: L3F512@7, L5H1
  double factor = 0;     // 0: ablated; X: boosted to X times
  double predicted = 0;  // by the graph's direct effect on the first target
  double frozen = 0;     // measured with patterns, norms and other nodes held fixed
  double measured = 0;   // measured with everything free to follow
};

}  // namespace openwork
