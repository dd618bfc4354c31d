#include "analyze/circuits/attribution.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analyze/circuits/edge_runner.h"
#include "analyze/tasks.h"
#include "base/error.h"
#include "model/architecture.h"
#include "model/load.h"

namespace openwork {
namespace {

TEST(EdgeGraph, CountsAndNamesAreMibs) {
  ModelConfig small;
  small.layers = small.heads = 12;
  const EdgeGraph graph(small);
  EXPECT_EQ(graph.edges().size(), 32491u);
  EXPECT_EQ(graph.node_names().size(), 158u);
  for (const char* name : {"input->a0.h0<q>", "a9.h9->a11.h10<q>", "m0->m4", "a11.h6->logits", "a3.h2->m3"}) {
    EXPECT_EQ(graph.edge_name(graph.parse_edge(name)), name);
  }
  for (const char* name :
       {"m4->m0", "m3->m3", "a3.h2->a3.h4<q>", "logits->input", "a3.h2", "a12.h0->logits", "input->a0.h0"}) {
    EXPECT_THROW(graph.parse_edge(name), Error) << name;
  }
  small.parallel_residual = true;
  EXPECT_THROW(EdgeGraph(small).parse_edge("a3.h2->m3"), Error);  // both read the layer's input
}

class EapFixture : public testing::Test {
 protected:
  EapFixture()
      : fixture_(read_fixture("eap_base8m.json")),
        task_(fixture_copy_task(8)),
        model_(load_model("models/openwork-8m")) {}

  void expect_scores(int64_t steps, const char* key, double absolute, double relative) {
    AblationRunner runner(model_, task_, AblationKind::kInterchange);
    EdgeRunner edges(model_, task_, runner);
    const Tensor scores = edges.score_edges(steps);  // [destinations, sources]
    ASSERT_EQ(edges.graph().edges().size(), 6637u);
    for (const auto& [name, score] : fixture_[key].items()) {
      const double expected = score.get<double>();
      const GraphEdge edge = edges.graph().parse_edge(name);
      EXPECT_NEAR(scores[edge.destination][edge.source].item<double>(), expected,
                  absolute + relative * std::abs(expected))
          << name;
    }
  }

  nlohmann::json fixture_;
  Task task_;
  Transformer model_;
};

TEST_F(EapFixture, EdgeScoresAreTheAuthors) {
  expect_scores(1, "eap", 1e-4, 2e-3);
}
TEST_F(EapFixture, IntegratedEdgeScoresAreTheAuthors) {
  expect_scores(5, "eap_ig", 2e-5, 1e-3);
}

TEST_F(EapFixture, SingleEdgesAreExact) {
  AblationRunner runner(model_, task_, AblationKind::kInterchange);
  EdgeRunner edges(model_, task_, runner);
  std::vector<GraphEdge> named;
  for (const auto& [name, effect] : fixture_["exact"].items())
    named.push_back(edges.graph().parse_edge(name));
  ASSERT_EQ(named.size(), 34u);
  const std::vector<PromptMetrics> effects = edges.measure_edges(named);
  size_t n = 0;
  for (const auto& [name, effect] : fixture_["exact"].items())
    EXPECT_NEAR(mean_of(effects[n++]), effect.get<double>(), 1e-4) << name;
}

class EveryGraph : public testing::TestWithParam<const char*> {};

// Two ways to replace one edge: the direct one, and the run in which every destination has its own stream.
TEST_P(EveryGraph, PathPatchingIsTheMaskedRunWithOneEdge) {
  const Transformer model = load_model(std::string("tests/data/") + GetParam());
  const Task task = made_up_task(model.config().vocabulary);
  for (const AblationKind kind : {AblationKind::kInterchange, AblationKind::kMean, AblationKind::kZero}) {
    AblationRunner runner(model, task, kind);
    EdgeRunner edges(model, task, runner);
    const std::vector<GraphEdge> all = edges.graph().edges();
    std::vector<GraphEdge> some;
    for (size_t n = 0; n < all.size(); n += 7) some.push_back(all[n]);
    std::vector<Tensor> masks;
    for (const GraphEdge& edge : some) {
      masks.push_back(at::zeros({edges.graph().destinations(), edges.graph().sources()}, at::kBool));
      masks.back()[edge.destination][edge.source] = true;
    }
    const std::vector<PromptMetrics> exact = edges.measure_edges(some), metrics = edges.run(masks);
    for (size_t n = 0; n < some.size(); ++n) {
      for (size_t p = 0; p < exact[n].size(); ++p) {
        EXPECT_NEAR(exact[n][p], runner.clean()[p] - metrics[n][p], 2e-5) << edges.graph().edge_name(some[n]);
      }
    }
  }
}

// Every edge of a source replaced at once is the source replaced; here every source is, so the corrupt run
// comes out.
TEST_P(EveryGraph, ReplacingEveryEdgeGivesTheCorruptRun) {
  const Transformer model = load_model(std::string("tests/data/") + GetParam());
  const Task task = made_up_task(model.config().vocabulary);
  AblationRunner runner(model, task, AblationKind::kInterchange);
  EdgeRunner edges(model, task, runner);
  const Tensor nothing = at::zeros({edges.graph().destinations(), edges.graph().sources()}, at::kBool);
  const std::vector<PromptMetrics> metrics = edges.run({nothing, nothing.logical_not()});
  for (size_t p = 0; p < runner.clean().size(); ++p) {
    EXPECT_NEAR(metrics[0][p], runner.clean()[p], 2e-5);
    EXPECT_NEAR(metrics[1][p], runner.corrupt()[p], 2e-5);
  }
}

// A copy of the model, in double, whose tokens are all nearly alike: their embeddings differ by `spread`.
Transformer with_alike_tokens(const Transformer& model, double spread) {
  const auto specs = list_parameters(architecture_named(model.config().architecture, "test"), model.config());
  NamedTensors parameters;
  for (size_t n = 0; n < specs.size(); ++n) {
    Tensor value = model.parameters()[n].second.to(at::kDouble);
    if (specs[n].role == Role::kEmbedding) value = value[0] + spread * (value - value[0]);
    parameters.emplace_back(specs[n].name, value);
  }
  return Transformer(model.config(), parameters);
}

// Small replacements have the effects that attribution says: it is the first order of path patching.
TEST_P(EveryGraph, SmallReplacementsHaveTheirAttributedEffects) {
  const Transformer base = load_model(std::string("tests/data/") + GetParam());
  const Task task = made_up_task(base.config().vocabulary);
  double error[2] = {};
  for (const int n : {0, 1}) {
    const Transformer model = with_alike_tokens(base, n == 0 ? 1e-3 : 1e-4);
    AblationRunner runner(model, task, AblationKind::kInterchange);
    EdgeRunner edges(model, task, runner);
    const std::vector<GraphEdge> all = edges.graph().edges();
    const std::vector<PromptMetrics> exact = edges.measure_edges(all);
    const Tensor scores = edges.score_edges(1);
    double largest = 0;
    for (size_t e = 0; e < all.size(); ++e) {
      const double effect = mean_of(exact[e]);
      largest = std::max(largest, std::abs(effect));
      error[n] =
          std::max(error[n], std::abs(scores[all[e].destination][all[e].source].item<double>() - effect));
    }
    ASSERT_GT(largest, 0);
    error[n] /= largest;
  }
  EXPECT_LT(error[1], 2e-3);
  EXPECT_LT(error[1], 0.2 * error[0]);  // a tenth of the step, a tenth of the relative error
}

INSTANTIATE_TEST_SUITE_P(Architectures, EveryGraph,
                         testing::Values("gpt2", "gpt_neox", "llama", "olmo", "olmo2",
                                         "sparse_gpt2_published", "llama_idle"));

// Where a norm follows attention, the heads' parts under it add up to what attention writes.
TEST(EdgeRunner, PartsUnderANormAfterAttentionAddUp) {
  const Transformer model = load_model("tests/data/olmo2");
  const Task task = made_up_task(model.config().vocabulary);
  AblationRunner runner(model, task, AblationKind::kInterchange);
  EdgeRunner edges(model, task, runner);
  for (const bool clean : {true, false}) {
    const Tensor values = edges.source_values(clean);  // [sources, P, T, D]
    for (int64_t layer = 0; layer < model.config().layers; ++layer) {
      const Tensor parts = values.narrow(0, edges.graph().head_source(layer, 0), model.config().heads);
      EXPECT_TRUE(at::allclose(parts.sum(0), runner.recorded(clean, Site::kAttentionOut, layer), 1e-4, 1e-5));
    }
    EXPECT_TRUE(at::allclose(
        values.sum(0), runner.recorded(clean, Site::kResidPost, model.config().layers - 1), 1e-4, 1e-5));
  }
}

// A GPT-2 in which everything is linear: queries and keys 0 (attention is the same everywhere), norms that
// only take the mean away (a huge epsilon, undone by the weight), ReLUs that never close.
Transformer linear_model() {
  nlohmann::json config = {{"model_type", "gpt2"},
                           {"n_layer", 3},
                           {"n_head", 2},
                           {"n_embd", 8},
                           {"n_positions", 16},
                           {"vocab_size", 40},
                           {"layer_norm_epsilon", 1e12},
                           {"activation_function", "relu"},
                           {"tie_word_embeddings", true}};
  const ModelConfig shape = read_model_config(config, "test");
  NamedTensors parameters;
  at::Generator generator = at::detail::createCPUGenerator(5);
  for (const ParameterSpec& spec : list_parameters(architecture_named("gpt2", "test"), shape)) {
    Tensor value = 0.3 * at::randn(spec.shape, generator, at::TensorOptions().dtype(at::kDouble));
    const bool norm = spec.role == Role::kNorm1 || spec.role == Role::kNorm2 || spec.role == Role::kFinalNorm;
    if (norm) value = spec.bias ? at::zeros_like(value) : at::full_like(value, 1e6);
    if (spec.role == Role::kQkv) value.narrow(-1, 0, 16).zero_();
    if (spec.role == Role::kUp && spec.bias) value.fill_(1000);
    parameters.emplace_back(spec.name, value);
  }
  return Transformer(shape, parameters);
}

TEST(Attribution, IsExactAndSumsUpInALinearModel) {
  const Transformer model = linear_model();
  const Task task = made_up_task(40, 3, 6);
  AblationRunner runner(model, task, AblationKind::kInterchange);
  EdgeRunner edges(model, task, runner);
  const std::vector<GraphEdge> all = edges.graph().edges();
  const std::vector<PromptMetrics> exact = edges.measure_edges(all);
  for (const int64_t steps : {1, 5}) {
    const Tensor scores = edges.score_edges(steps);
    double into_logits = 0;
    for (size_t n = 0; n < all.size(); ++n) {
      const double score = scores[all[n].destination][all[n].source].item<double>();
      EXPECT_NEAR(score, mean_of(exact[n]), 1e-7) << edges.graph().edge_name(all[n]);
      if (all[n].destination == edges.graph().logits()) into_logits += score;
    }
    // All that is different between clean and corrupt reaches the logits along some last edge.
    EXPECT_NEAR(into_logits, mean_of(runner.clean()) - mean_of(runner.corrupt()), 1e-7);
    EXPECT_GT(std::abs(into_logits), 1e-3);
  }
  // A head's attribution is its effect, and the sum of its edges' attributions.
  const Tensor heads = attribute_heads(model, runner, AblationKind::kInterchange, 1);
  const std::vector<Tensor> by_edge = attribute_attention_edges(model, runner, AblationKind::kInterchange, 1);
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (int64_t head = 0; head < 2; ++head) {
      const double effect = mean_of(runner.clean()) - mean_of(runner.run({{head_part(layer, head)}}).front());
      EXPECT_NEAR(heads[layer][head].item<double>(), effect, 1e-7);
      EXPECT_NEAR(by_edge[static_cast<size_t>(layer)][head].sum().item<double>(), effect, 1e-7);
    }
  }
}

TEST(Attribution, SumsOverEdgesToTheHeadInEveryKind) {
  const Transformer model = load_model("tests/data/llama");
  const Task task = made_up_task(model.config().vocabulary);
  for (const AblationKind kind : {AblationKind::kZero, AblationKind::kMean, AblationKind::kInterchange}) {
    AblationRunner runner(model, task, kind);
    const Tensor heads = attribute_heads(model, runner, kind, 5);
    const std::vector<Tensor> edges = attribute_attention_edges(model, runner, kind, 5);
    for (int64_t layer = 0; layer < model.config().layers; ++layer) {
      EXPECT_TRUE(at::allclose(edges[static_cast<size_t>(layer)].sum({1, 2}), heads[layer], 1e-4, 1e-6));
    }
  }
}

}  // namespace
}  // namespace openwork
