// What a graph is worth: scores against circuit-tracer's own way of reckoning them (the whole square matrix,
// powers added up), and the prompt run with its MLPs replaced.
#include "analyze/trace/trace_worth.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analyze/trace_fixtures.h"
#include "model/load.h"
#include "transcode/mlp_activations.h"

namespace openwork {
namespace {

using Kinds = std::vector<TraceNodeKind>;
constexpr auto kFeature = TraceNodeKind::kFeature, kError = TraceNodeKind::kError,
               kToken = TraceNodeKind::kEmbedding, kBias = TraceNodeKind::kBias;

// The logit reads the feature (3) and an error (-1); the feature reads the token (1), an error (-2) and a
// bias (1).
EffectRows small_effects() {
  return {at::tensor({3.0f, -1.0f, 0.0f, 0.0f,   // the logit
                      0.0f, -2.0f, 1.0f, 1.0f})  // the feature
              .view({2, 4}),
          {-1, 0},
          {1, 0},
          {1.0, 0.0}};
}
const Kinds kSmallKinds = {kFeature, kError, kToken, kBias};

TEST(TraceWorth, OfASmallGraphIsWorkedOutByHand) {
  const TraceWorth worth = score_effects(small_effects(), kSmallKinds);
  // Without the bias the feature (influence 3/4) is 2/3 error: errors 1/4 + 1/2, the token 1/4.
  EXPECT_NEAR(worth.replacement, 0.25, 1e-6);
  // Weights: logit 1, feature 3/4, error 3/4, token 1/4; of these the logit is 1/4 dark, the feature 2/3.
  EXPECT_NEAR(worth.completeness, 1 - (0.25 + 0.75 * 2 / 3) / 2.75, 1e-6);
  // With the bias the feature is half error.
  EXPECT_NEAR(worth.error_share, 0.25 + 0.75 / 2, 1e-6);
}

TEST(TraceWorth, AgreesWithTheWholeMatrix) {
  // Columns: 4 features, 3 errors, 3 tokens. Feature n reads tokens, errors and the features before it.
  const int64_t F = 4, N = 10;
  at::Generator generator = at::detail::createCPUGenerator(3);
  const Tensor effects = at::randn({F + 2, N}, generator);  // two logits, then features 3, 2, 1, 0
  EffectRows rows{effects, {-1, -1, 3, 2, 1, 0}, {4, 4, 3, 2, 1, 0}, {0.7, 0.3, 0, 0, 0, 0}};
  for (int64_t f = 0; f < F; ++f) rows.weights[F + 1 - f].narrow(0, f, F - f).zero_();
  const Kinds kinds = {kFeature, kFeature, kFeature, kFeature, kError,
                       kError,   kError,   kToken,   kToken,   kToken};

  Tensor square = at::zeros({N + 2, N + 2}, at::kDouble), start = at::zeros({N + 2}, at::kDouble);
  square.narrow(0, N, 2).narrow(1, 0, N).copy_(rows.weights.narrow(0, 0, 2).abs());
  for (int64_t f = 0; f < F; ++f) square[f].narrow(0, 0, N).copy_(rows.weights[F + 1 - f].abs());
  square /= square.sum(1, true).clamp_min(1e-10);
  start[N] = 0.7, start[N + 1] = 0.3;
  Tensor influence = at::zeros_like(start);
  for (Tensor flow = at::matmul(start, square); flow.any().item<bool>(); flow = at::matmul(flow, square))
    influence += flow;
  const Tensor errors = influence.narrow(0, 4, 3).sum(), tokens = influence.narrow(0, 7, 3).sum();
  const Tensor weight = influence + start, explained = 1 - square.narrow(1, 4, 3).sum(1);

  const TraceWorth worth = score_effects(rows, kinds);
  EXPECT_NEAR(worth.replacement, (tokens / (tokens + errors)).item<double>(), 1e-6);
  EXPECT_NEAR(worth.completeness, ((explained * weight).sum() / weight.sum()).item<double>(), 1e-6);
  EXPECT_NEAR(worth.error_share, 1 - worth.replacement, 1e-6) << "without biases nothing else is left";
}

TEST(TraceWorth, LossesAreThoseOfTheReplacedModel) {
  const Transformer model = load_model("tests/data/gpt2");
  const Transcoders transcoders = random_transcoders(model.config());
  const Tensor ids = made_up_ids(model.config().vocabulary, 7);
  Tracer tracer(model, &transcoders, ids, keep_everything());
  const TraceGraph& graph = tracer.find_graph();
  ASSERT_TRUE(graph.worth.has_value());
  const TraceWorth& worth = *graph.worth;
  EXPECT_TRUE(worth.replacement > 0 && worth.replacement < 1) << worth.replacement;
  EXPECT_TRUE(worth.completeness > 0 && worth.completeness < 1) << worth.completeness;

  Taps taps;
  replace_mlps(taps, transcoders, model.config());
  ForwardOptions options;
  double before = 0, after = 0, probability = 0;
  for (double* loss : {&before, &after}) {
    const Tensor logs = at::log_softmax(model.forward(ids.unsqueeze(0), options)[0].to(at::kDouble), -1);
    for (int64_t t = 0; t + 1 < 7; ++t) *loss -= logs[t][ids[t + 1].item<int64_t>()].item<double>() / 6;
    probability = std::exp(logs[6][graph.nodes[first_target(graph)].feature].item<double>());
    options.taps = &taps;
  }
  EXPECT_NEAR(worth.model_loss, before, 1e-5);
  EXPECT_NEAR(worth.replaced_loss, after, 1e-5);
  EXPECT_NEAR(worth.replaced_probability, probability, 1e-6);
  EXPECT_GT(std::abs(before - after), 1e-3) << "random transcoders are not the MLPs";
}

TEST(TraceWorth, IsNotAskedWhereMlpsAreNodes) {
  const Transformer model = load_model("tests/data/gpt2");
  Tracer tracer(model, nullptr, made_up_ids(model.config().vocabulary, 4), keep_everything());
  EXPECT_FALSE(tracer.find_graph().worth.has_value());
}

}  // namespace
}  // namespace openwork
