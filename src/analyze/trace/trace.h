// Tracing one prompt (docs/method.md, 5): which features, at which tokens and layers, make the next token,
// and which heads carry them from token to token. With attention patterns, norm scales and active features
// held as the prompt has them, the model is linear, and the direct effect of a source node on a target node
// is a number:
//   1. run       the prompt once, keeping patterns, scales, MLP inputs and outputs, features
//   2. attribute a target's reading direction, carried backward through residual stream and attention, meets
//                every source: effects = direction . what the source writes; they sum to the pre-activation
//   3. choose    targets first, then whichever nodes influence them most, until max_nodes
//   4. prune     nodes to 0.8 and links to 0.98 of the influence
//   5. share     a source's writing, carried forward, meets each target's same-token direction at every head:
//                the paths whose last move between tokens that head makes
// Without transcoders whole MLPs are nodes (trace_targets.h says what their values are). All in float32.
//   Tracer tracer(model, &transcoders, ids, settings);
//   TraceGraph graph = tracer.find_graph();
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analyze/trace/trace_records.h"
#include "transcode/transcoder.h"

namespace openwork {

struct TraceState;

struct TraceSettings {
  std::vector<int64_t> targets;  // tokens whose logits are traced; empty: the most likely one
  int64_t max_nodes = 2000;      // attributed to, besides the targets
  double node_threshold = 0.8, edge_threshold = 0.98;
  int64_t memory =
      int64_t{8} << 30;  // bytes besides the model; where it takes more, it fails before it starts
  // Per token and layer, that bytes_needed reckons with; what the prompt has in fact is reckoned with once it has
  // been run.
  int64_t active_features = 64;
};

class Tracer {
 public:
  // `transcoders` may be null: then whole MLPs are nodes. Both must outlive this. ids [T], T >= 1.
  Tracer(const Transformer& model, const Transcoders* transcoders, const Tensor& ids, TraceSettings settings);
  ~Tracer();

  // What tracing a prompt takes at most, in bytes besides the model: known before anything is run, where no
  // token has more than settings.active_features active features in a layer.
  static int64_t bytes_needed(const ModelConfig& config, const Transcoders* transcoders, int64_t tokens,
                              const TraceSettings& settings);

  // Phases 2 to 5. `advance(done, all)` counts nodes attributed.
  const TraceGraph& find_graph(const std::function<void(int64_t, int64_t)>& advance = nullptr);

  // Over all sources at `from` (features, error or MLP outputs of all layers, the embedding; no biases) and
  // all attributed targets at `to`, the logits among them where `to` is the last position. from < to.
  HeadExplanation explain(int64_t from, int64_t to, double share);

  // c q . k of one pattern entry as pairs of nodes of the graph, norm scales held fixed; the `most` largest, and all of
  // them as a table of at most kScoreNodes nodes on either side and the rest.
  static constexpr size_t kScoreNodes = 8;
  QueryKeyAttribution attribute_score(HeadPlace head, int64_t query, int64_t key, size_t most);

  // Sets a node (L3F512@7, M3@7, E3@7, T@7) or a head (L5H1) to `factor` times what it was, each change by itself, and
  // says by how much the first target's logit changes: predicted by direct effects and by all paths of the graph, these
  // with more and more following; with everything else frozen; and in the model itself, with patterns held and with
  // everything free. Many changes are run in batches.
  std::vector<TraceIntervention> intervene(const std::vector<NodeChange>& changes);
  TraceIntervention intervene(const std::string& node, double factor);

  // Fails on the first change that intervene could not make: a head, node or active feature that is not there.
  void check_changes(const std::vector<NodeChange>& changes) const;

  // Everything that writes into the stream of this prompt, active features first, in the graph or not; influence is not
  // filled in.
  const std::vector<TraceNode>& sources() const;

 private:
  std::unique_ptr<TraceState> state_;
};

}  // namespace openwork
