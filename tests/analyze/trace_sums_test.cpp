// What tracing promises in numbers, on every architecture: effects sum to what they explain, heads to the
// link, pairs to the score, and the frozen model does what the graph predicts.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "analyze/trace/held_run.h"
#include "analyze/trace_fixtures.h"
#include "model/load.h"
#include "transcode/mlp_activations.h"

namespace openwork {
namespace {

struct TraceCase {
  const char* model;
  const char* name;
  bool transcoders = true;
  RandomShape shape = {};
};

void PrintTo(const TraceCase& one, std::ostream* out) {
  *out << one.model << " " << one.name;
}

std::vector<TraceCase> all_cases() {
  std::vector<TraceCase> cases;
  for (const char* model :
       {"tests/data/gpt2", "tests/data/gpt_neox", "tests/data/llama", "tests/data/olmo", "tests/data/olmo2",
        "tests/data/sparse_gpt2_published", "tests/data/llama_idle", "tests/data/variants/olmo_clipped",
        "tests/data/variants/olmo2_grouped", "tests/data/variants/llama_biases",
        "tests/data/variants/gpt_neox_sequential", "models/openwork-8m", "models/openwork-8m-sparse"}) {
    cases.push_back({model, "mlps", false});
    cases.push_back({model, "per layer"});
    cases.push_back({model, "across layers", true, {.kind = TranscoderKind::kCrossLayer}});
    if (std::string(model).starts_with("models/")) continue;  // the tiny ones do for the rest
    cases.push_back(
        {model, "per layer, residual, skip", true, {.input = TranscoderInput::kResidual, .skip = true}});
    cases.push_back({model, "per layer, normed, skip", true, {.skip = true}});
  }
  return cases;
}

class EveryTrace : public testing::TestWithParam<TraceCase> {
 protected:
  EveryTrace()
      : model_(load_model(GetParam().model)),
        transcoders_(random_transcoders(model_.config(), GetParam().shape)),
        tracer_(model_, GetParam().transcoders ? &transcoders_ : nullptr,
                made_up_ids(model_.config().vocabulary, 9), keep_everything(200)) {}

  Transformer model_;
  Transcoders transcoders_;
  Tracer tracer_;
};

TEST_P(EveryTrace, EffectsSumToWhatTheyExplain) {
  const TraceGraph& graph = tracer_.find_graph();
  EXPECT_LE(graph.sums.effects, 1e-4);
  EXPECT_EQ(graph.sums.targets, graph.nodes_attributed + 1);
  EXPECT_GE(graph.nodes_attributed, 10);
  // The same once more, from the links themselves, for targets all of whose sources are in the graph.
  std::vector<double> sums(graph.nodes.size(), 0.0);
  for (const TraceLink& link : graph.links) sums[static_cast<size_t>(link.target)] += link.weight;
  if (graph.nodes_attributed >= 200) return;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    const bool target = node.kind == TraceNodeKind::kFeature || node.kind == TraceNodeKind::kMlp ||
                        node.kind == TraceNodeKind::kLogit;
    if (!target) continue;
    EXPECT_NEAR(sums[n], node.value, 2e-4 * std::max(1.0, std::abs(node.value))) << node.name();
  }
}

TEST_P(EveryTrace, HeadSharesSumToTheLink) {
  const TraceGraph& graph = tracer_.find_graph();
  EXPECT_LE(graph.sums.heads, 1e-4);
  int64_t moving = 0;
  for (const TraceLink& link : graph.links) {
    const int64_t from = graph.nodes[static_cast<size_t>(link.source)].position,
                  to = graph.nodes[static_cast<size_t>(link.target)].position;
    ASSERT_LE(from, to);
    if (from == to) {
      EXPECT_TRUE(link.heads.empty());
      continue;
    }
    ++moving;
    double sum = link.other_heads, size = 0;
    for (const HeadShare& head : link.heads) sum += head.weight, size += std::abs(head.weight);
    EXPECT_NEAR(sum, link.weight, 1e-5 * size + 1e-6);
  }
  EXPECT_EQ(moving, graph.sums.links);
  EXPECT_GT(moving, 10);
}

TEST_P(EveryTrace, FrozenModelDoesWhatTheGraphPredicts) {
  const TraceGraph& graph = tracer_.find_graph();
  std::map<TraceNodeKind, std::string> largest;  // the node of each kind with the largest direct effect
  std::map<TraceNodeKind, double> sizes;
  for (const TraceLink& link : graph.links) {
    const TraceNode& node = graph.nodes[static_cast<size_t>(link.source)];
    if (graph.nodes[static_cast<size_t>(link.target)].kind != TraceNodeKind::kLogit ||
        node.kind == TraceNodeKind::kBias)
      continue;
    if (std::abs(link.weight) > sizes[node.kind])
      sizes[node.kind] = std::abs(link.weight), largest[node.kind] = node.name();
  }
  EXPECT_EQ(largest.size(), GetParam().transcoders ? 3u : 2u);
  for (const auto& [kind, name] : largest) {
    for (const double factor : {0.0, 3.0}) {
      const TraceIntervention change = tracer_.intervene(name, factor);
      EXPECT_NEAR(change.frozen, change.predicted, 1e-4 * std::max(1.0, std::abs(change.predicted))) << name;
      EXPECT_NEAR(std::abs(change.predicted), std::abs(factor - 1) * sizes[kind],
                  1e-5 * std::max(1.0, sizes[kind]))
          << name;
    }
  }
  double moved = 0;
  for (int64_t layer = 0; layer < model_.config().layers; ++layer) {
    const TraceIntervention change = tracer_.intervene(HeadPlace{layer, 1}.name(), 0);
    EXPECT_NEAR(change.frozen, change.predicted, 1e-4 * std::max(1.0, std::abs(change.predicted)))
        << change.node;
    moved += std::abs(change.measured);
  }
  EXPECT_GT(moved, 0);
}

TEST_P(EveryTrace, AllPathsAreSumsOverTheGraph) {
  const TraceGraph& graph = tracer_.find_graph();
  if (!GetParam().transcoders || graph.nodes_attributed >= 200) return;
  // By links alone, from above: a node's total effect is what it adds to each reader, as a share of the reader's value,
  // times the reader's own. Nodes are in order of their layers, links in order of their targets.
  std::vector<double> totals(graph.nodes.size(), 0);
  totals[first_target(graph)] = 1;
  for (size_t n = graph.links.size(); n-- > 0;) {
    const TraceNode& reader = graph.nodes[static_cast<size_t>(graph.links[n].target)];
    const double value = reader.kind == TraceNodeKind::kLogit ? 1 : reader.value;
    totals[static_cast<size_t>(graph.links[n].source)] +=
        graph.links[n].weight * totals[static_cast<size_t>(graph.links[n].target)] / value;
  }
  std::vector<NodeChange> changes;
  std::vector<double> wanted;
  for (size_t n = 0; n < graph.nodes.size(); n += 7) {
    const TraceNode& node = graph.nodes[n];
    if (node.kind == TraceNodeKind::kBias || node.kind == TraceNodeKind::kLogit) continue;
    changes.push_back({node.name(), 0}), wanted.push_back(-totals[n]);
  }
  ASSERT_GT(changes.size(), 5u);
  const std::vector<TraceIntervention> found = tracer_.intervene(changes);
  for (size_t n = 0; n < found.size(); ++n) {
    EXPECT_NEAR(found[n].total, wanted[n], 2e-4 * std::max(1.0, std::abs(wanted[n]))) << found[n].node;
    EXPECT_NEAR(found[n].frozen, found[n].predicted, 1e-4 * std::max(1.0, std::abs(found[n].predicted)))
        << found[n].node;
  }
  const TraceIntervention alone = tracer_.intervene(found[1].node, 0);  // batched or not
  EXPECT_NEAR(alone.measured, found[1].measured, 1e-4 * std::max(1.0, std::abs(alone.measured)));
}

// The first target's logit under these taps, and with one head of every layer in turn at nothing: how far it moves.
std::vector<double> close_heads(const TraceState& state, const Taps& taps) {
  const auto logit = [&](const Taps& these) {
    ForwardOptions options;
    options.taps = &these;
    options.last_only = true;
    return state.run.model.forward(state.run.ids, options).flatten()[state.targets[0]].item<double>();
  };
  std::vector<double> moved;
  for (int64_t layer = 0; layer < state.run.config().layers; ++layer) {
    Taps closed = taps;
    closed.replace({Site::kZ, layer}, [](const Tensor& z) {
      Tensor without = z.clone();
      without.select(2, 1).zero_();
      return without;
    });
    moved.push_back(logit(closed) - logit(taps));
  }
  return moved;
}

TEST_P(EveryTrace, AllPathsForwardAreTheirSum) {
  const at::NoGradGuard no_grad;
  const TraceState state(model_, GetParam().transcoders ? &transcoders_ : nullptr,
                         made_up_ids(model_.config().vocabulary, 9), keep_everything(200));
  Taps taps;
  hold(state, {}, taps);
  const std::vector<double> moved = close_heads(state, taps);
  for (size_t layer = 0; layer < moved.size(); ++layer) {
    const TraceIntervention head = tracer_.intervene(HeadPlace{static_cast<int64_t>(layer), 1}.name(), 0);
    EXPECT_NEAR(head.total, moved[layer], 1e-4 * std::max(1.0, std::abs(moved[layer]))) << head.node;
  }
}

TEST_P(EveryTrace, ReplacedModelFollowsAsItIsWithErrorsHeld) {
  const at::NoGradGuard no_grad;
  const bool replaced = GetParam().transcoders;
  const TraceState state(model_, replaced ? &transcoders_ : nullptr,
                         made_up_ids(model_.config().vocabulary, 9), keep_everything(200));
  Taps taps;
  if (replaced) {
    replace_mlps(taps, transcoders_, model_.config());
    std::vector<Tensor> features, inputs;
    for (size_t n = 0; n < transcoders_.layers.size(); ++n) {
      inputs.push_back(state.run.layers[n].mlp_in);
      features.push_back(encode(transcoders_.layers[n], inputs[n]));
      const Tensor error = state.run.layers[n].mlp_out - decode_layer(transcoders_, n, features, inputs);
      taps.replace({Site::kMlpOut, static_cast<int64_t>(n)}, [error](const Tensor& x) { return x + error; });
    }
  }
  const std::vector<double> moved = close_heads(state, taps);
  for (size_t layer = 0; layer < moved.size(); ++layer) {
    const TraceIntervention head = tracer_.intervene(HeadPlace{static_cast<int64_t>(layer), 1}.name(), 0);
    EXPECT_NEAR(head.by(Following::kPatterns), moved[layer], 1e-3 * std::max(1.0, std::abs(moved[layer])))
        << head.node;
    if (replaced) continue;  // without transcoders that is the model itself
    EXPECT_NEAR(head.by(Following::kPatterns), head.measured, 1e-4) << head.node;
    EXPECT_NEAR(head.by(Following::kFeatures), head.patterns_held, 1e-4) << head.node;
  }
}

TEST_P(EveryTrace, BehindTheLastLayerTheFinalNormIsAllThatFollows) {
  const int64_t last = model_.config().layers - 1;
  double apart = 0;
  int64_t met = 0;
  for (const TraceNode& node : std::vector<TraceNode>(tracer_.sources())) {
    const bool written = node.kind == TraceNodeKind::kFeature || node.kind == TraceNodeKind::kMlp;
    if (!written || node.layer != last || node.position != 8) continue;
    const TraceIntervention change = tracer_.intervene(node.name(), 0);
    const double near = 1e-4 * std::max(1.0, std::abs(change.measured));
    EXPECT_NEAR(change.by(Following::kFinalNorm), change.measured, near) << change.node;
    EXPECT_NEAR(change.by(Following::kPatterns), change.measured, near) << change.node;
    EXPECT_NEAR(change.patterns_held, change.measured, near) << change.node;
    apart += std::abs(change.total - change.measured), ++met;
  }
  ASSERT_GT(met, 0);
  EXPECT_GT(apart, 1e-4) << "with the final norm held it is not what happens";
}

TEST_P(EveryTrace, PairsSumToTheScore) {
  const int64_t layer = model_.config().layers - 1;
  for (const auto& [head, query, key] : {std::tuple{HeadPlace{layer, 1}, 7, 3},
                                         {HeadPlace{layer, 0}, 4, 4},
                                         {HeadPlace{1, 1}, 5, 0},
                                         {HeadPlace{0, 0}, 6, 2}}) {
    const QueryKeyAttribution found = tracer_.attribute_score(head, query, key, 1 << 30);
    Tensor scores;
    Taps taps;
    taps.read({Site::kScores, head.layer}, [&](const Tensor& s) { scores = s[0][found.head.head]; });
    model_.forward(made_up_ids(model_.config().vocabulary, 9).unsqueeze(0), {.taps = &taps});
    const double score = scores[query][key].item<double>();
    double sum = 0, size = 0, rest = 0;
    for (const QueryKeyPair& pair : found.pairs) {
      sum += pair.weight, size += std::abs(pair.weight);
      if (pair.query_node < 0 && pair.key_node < 0) rest += std::abs(pair.weight);
    }
    EXPECT_NEAR(found.score, score, 1e-5 + 1e-5 * std::abs(score));
    EXPECT_NEAR(sum, score, 1e-5 + 1e-5 * size);
    double table = 0;
    ASSERT_EQ(found.weights.size(), found.queries.size());
    for (const std::vector<double>& row : found.weights) {
      ASSERT_EQ(row.size(), found.keys.size());
      for (const double weight : row) table += weight;
    }
    EXPECT_NEAR(table, score, 1e-4 * std::max(1.0, std::abs(score)));
    EXPECT_LE(found.queries.size(), Tracer::kScoreNodes + 1);
    EXPECT_EQ(found.keys.back(), -1);
    // Nearly all of it is in the graph where that leaves nothing out, but for what biases make of biases.
    if (!model_.config().qkv_bias && tracer_.find_graph().nodes_attributed < 200 &&
        model_.config().architecture != "gpt_neox") {
      EXPECT_LE(rest, 1e-3 * size + 1e-6);
    }
    EXPECT_EQ(tracer_.attribute_score(head, query, key, 3).pairs.size(), 3u);
  }
}

TEST_P(EveryTrace, ExplanationAddsUpWhatLinksSay) {
  const int64_t from = 3, to = 8;
  const HeadExplanation found = tracer_.explain(from, to, 0.8);
  const TraceGraph& graph = tracer_.find_graph();
  double sum = 0, made_up = 0;
  for (const HeadShare& head : found.heads) sum += head.weight;
  EXPECT_NEAR(sum, found.total, 1e-9 + 1e-9 * sum);
  for (int64_t n = 0; n < found.needed; ++n) made_up += found.heads[static_cast<size_t>(n)].weight;
  EXPECT_GE(made_up, 0.8 * found.total);
  EXPECT_LT(made_up - found.heads[static_cast<size_t>(found.needed - 1)].weight, 0.8 * found.total);
  if (graph.nodes_attributed >= 200) return;
  double links = 0, absolute = 0, signed_sum = 0;
  for (const TraceLink& link : graph.links) {
    const TraceNode &source = graph.nodes[static_cast<size_t>(link.source)],
                    &target = graph.nodes[static_cast<size_t>(link.target)];
    if (source.position != from || target.position != to || source.kind == TraceNodeKind::kBias) continue;
    links += link.weight;
    for (const HeadShare& head : link.heads) absolute += std::abs(head.weight);
  }
  for (const HeadShare& head : found.signed_heads) signed_sum += head.weight;
  EXPECT_NEAR(signed_sum, links, 1e-4 * found.total + 1e-6);
  EXPECT_NEAR(absolute, found.total, 1e-3 * found.total + 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryTrace, testing::ValuesIn(all_cases()));

}  // namespace
}  // namespace openwork
