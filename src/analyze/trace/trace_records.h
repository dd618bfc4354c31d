// What tracing one prompt finds (docs/method.md, 5), as plain data: the nodes that make the target's logit,
// the direct effects between them, and the heads that carry each effect from token to token. Made by
// analyze/trace/trace.h; drawn by draw/trace_diagram.h; written as graph JSON by report/trace_graph.h. No
// torch here.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
const char* kind_name(TraceNodeKind kind);  // "embedding", "feature", "mlp", "error", "bias", "logit"

struct TraceNode {
  TraceNodeKind kind = TraceNodeKind::kEmbedding;
  int64_t layer = -1;  // -1: embeddings; the number of layers: logits
  int64_t position = 0;
  int64_t feature = -1;  // of a feature: its number; of a logit or an embedding: the token
  // A feature's activation; a logit; an MLP's share of the first target (trace_targets.h); of an embedding,
  // error or bias: its direct effect on the first target.
  double value = 0;
  double influence = 0;  // on the targets, over all paths, normalised as circuit-tracer does: in [0, 1]
  double cumulative =
      0;  // share of all influence that nodes at least as influential hold: viewers' "influence"
  double probability = 0;  // of a logit's token

  // L3F512@7, M3@7 (an MLP), E3@7 (an error), T@7 (an embedding), B3@7 (a bias), 412 (a logit: its token)
  std::string name() const;
};

// The node that a name (L3F512@7, M3@7, E3@7, T@7) means: its kind, layer, position and feature; none where the text has
// another form. Whether a model and a prompt have it is the caller's to ask.
std::optional<TraceNode> parse_trace_node(std::string_view name);

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

// What a graph is worth where transcoders stand in for MLPs. The first two are circuit-tracer's scores, of
// all nodes attributed to, before pruning; biases, which it does not have as nodes, are left out of those.
struct TraceWorth {
  double replacement = 0;  // of the influence that ends in tokens and errors, what ends in tokens
  double completeness =
      0;                   // of the effects on all nodes, each node at its influence, what is not from errors
  double error_share = 0;  // of all influence that ends (in tokens, errors and biases), what ends in errors
  // Nats per token of the prompt itself, as the model has it and with all MLPs replaced; NaN of a prompt of one token.
  double model_loss = 0, replaced_loss = 0;
  double replaced_probability = 0;  // of the first target with all MLPs replaced
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
  std::optional<TraceWorth> worth;  // none: MLPs are nodes, nothing is replaced
};

// By node of a graph: what a feature is about, in a word or two, and the token of a logit or an embedding as
// text; "" where nobody knows. None at all: nobody knows anything.
using NodeLabels = std::vector<std::string>;

// The node of the first target; every graph has one.
size_t first_target(const TraceGraph& graph);

// Nodes by influence, the largest first, targets left out; at most `most`.
std::vector<size_t> strongest_nodes(const TraceGraph& graph, int64_t most);

// By node: what one unit of effect on it is worth to the answer. Times a link's weight it is the link's part
// in what reaches the answer: the share it has of all that reaches its target, times the target's own
// influence.
std::vector<double> parts_in_answer(const TraceGraph& graph);

// The same graph with its `links` strongest links, by their parts in the answer, each with its `heads` largest shares;
// the other heads are summed. For views that need not show everything.
TraceGraph thin_graph(TraceGraph graph, size_t links, size_t heads);

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

// One entry of a head's pattern: what the query's token takes from the key's.
struct PatternEntry {
  HeadPlace head;
  int64_t query = 0, key = 0;

  std::string name() const;  // L5H1:8<-5
};
// Empty where the text has another form, or the key comes after the query.
std::optional<PatternEntry> parse_pattern_entry(std::string_view text);

// A pattern entry's score before softmax, as sums over pairs of nodes: one in the query, one in the key.
struct QueryKeyPair {
  int64_t query_node = 0, key_node = 0;  // into the graph's nodes; -1: all that is not in it
  double weight = 0;
};
struct QueryKeyAttribution {
  HeadPlace head;
  int64_t query = 0, key = 0;
  std::string name() const { return PatternEntry{head, query, key}.name(); }
  double score = 0;                 // c q . k
  std::vector<QueryKeyPair> pairs;  // largest first by size
  // All pairs as a table: the nodes that do most on either side, and last, as -1, everything else. weights [query][key]
  // sum to the score; a row's sum is what the query's node adds to it with the whole key.
  std::vector<int64_t> queries, keys;
  std::vector<std::vector<double>> weights;
};

// A node (L3F512@7, M3@7, E3@7, T@7) or head (L5H1) to be set to `factor` times what it was.
struct NodeChange {
  std::string node;
  double factor = 0;
};

// What follows a change in the linear model that the graph is of, one thing after another; each has those before it.
enum class Following {
  kFinalNorm,  // the scale of the norm before the unembedding: all paths meet there, and the logit is read behind it
  kNorms,     // the scales of all other norms
  kFeatures,  // which features are active; without transcoders, MLPs
  kPatterns,  // attention's: the replaced model, what transcoders miss held; without transcoders, the model
};
inline constexpr std::array<Following, 4> kFollowings = {Following::kFinalNorm, Following::kNorms,
                                                         Following::kFeatures, Following::kPatterns};
const char* following_name(Following step);  // "final_norm", "norms", "features", "patterns"

// A node or head changed, and by how much the first target's logit changed with it.
struct TraceIntervention {
  std::string node;          // as the user wrote it: L3F512@7, L5H1
  double factor = 0;         // 0: ablated; X: boosted to X times
  double predicted = 0;      // by the graph's direct effect on the first target
  double total = 0;          // predicted by all the graph's paths to it: through other features or MLPs too
  double frozen = 0;         // measured with patterns, norms and other nodes held fixed
  double measured = 0;       // measured with everything free to follow
  double patterns_held = 0;  // measured with attention's patterns held, all else free
  std::array<double, 4> following =
      {};  // predicted as `total` is, but for what follows; in the order of kFollowings

  double by(Following step) const { return following[static_cast<size_t>(step)]; }
  double& by(Following step) { return following[static_cast<size_t>(step)]; }
};

// Of several interventions: how many moved the logit the way the graph predicted, and how closely.
struct InterventionAgreement {
  int64_t same_sign = 0, count = 0;
  double correlation = 0;  // Pearson's, predicted against measured; NaN below three
  double rank = 0;         // Spearman's, total against measured; NaN below three
  double direct_rank = 0;  // Spearman's, predicted against measured; NaN below three
};
InterventionAgreement compare_interventions(const std::vector<TraceIntervention>& interventions);

}  // namespace openwork
