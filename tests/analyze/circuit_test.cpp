#include "analyze/circuits/circuit.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analyze/circuits/circuit_parts.h"
#include "analyze/circuits/curve_sizes.h"
#include "analyze/circuits/drawn_edges.h"
#include "analyze/circuits/model_circuits.h"
#include "analyze/tasks.h"
#include "base/error.h"
#include "base/progress.h"
#include "model/load.h"

namespace openwork {
namespace {

// Curves of a known shape: prompt p has metric 1 + rise(count).
KeepFirst curve_of(const std::function<double(int64_t)>& rise, size_t prompts = 4) {
  return [=](const std::vector<int64_t>& counts) {
    std::vector<PromptMetrics> metrics;
    for (const int64_t count : counts) metrics.emplace_back(prompts, 1 + rise(count));
    return metrics;
  };
}

TEST(Circuit, StopsAtTheSmallestFaithfulSet) {
  // Rises to 0.95 at 5, falls below at 7, is back at 9.
  const double shape[] = {0, 0.1, 0.2, 0.4, 0.8, 0.95, 0.92, 0.7, 0.8, 0.93, 1};
  const CircuitCurve curve =
      trace_curve(curve_of([&](int64_t k) { return shape[k]; }), 10, PromptMetrics(4, 2), 0.9, 0);
  EXPECT_EQ(curve.at_threshold, 5);
  ASSERT_EQ(curve.points.size(), 11u);
  for (int64_t k = 0; k <= 10; ++k) {
    EXPECT_EQ(curve.points[static_cast<size_t>(k)].count, k);
    EXPECT_NEAR(curve.points[static_cast<size_t>(k)].faithfulness, shape[k], 1e-12);
  }
  EXPECT_EQ(curve.threshold_interval.low, 5);
  EXPECT_EQ(curve.threshold_interval.high, 5);
}

TEST(Circuit, ClosesInOnTheBorderOfALongCurve) {
  for (const int64_t border : {1, 2, 777, 4096, 99999}) {
    int64_t asked = 0;
    const KeepFirst step = [&](const std::vector<int64_t>& counts) {
      asked += static_cast<int64_t>(counts.size());
      return curve_of([&](int64_t k) { return k >= border ? 1.0 : 0.0; })(counts);
    };
    EXPECT_EQ(trace_curve(step, 100000, PromptMetrics(4, 2), 0.9, 0).at_threshold, border);
    EXPECT_LT(asked, 90);
  }
}

TEST(Circuit, RefusesATaskThatNothingHurts) {
  EXPECT_THROW(trace_curve(curve_of([](int64_t) { return 1.0; }), 10, PromptMetrics(4, 2), 0.9, 0), Error);
}

TEST(Circuit, RoundingIsNoEffect) {
  const auto keep = curve_of([](int64_t k) { return 1e-6 * static_cast<double>(k); });
  EXPECT_THROW(trace_curve(keep, 10, PromptMetrics(4, 1 + 1e-5), 0.9, 0), Error);
}

// One prompt gains what another loses: resampled, the task is often not done at all. Then all parts are needed, not
// none of them.
TEST(Circuit, ADrawThatNothingHurtsNeedsEveryPart) {
  const KeepFirst keep = [](const std::vector<int64_t>& counts) {
    std::vector<PromptMetrics> metrics;
    for (const int64_t count : counts) {
      const double f = count >= 3 ? 1 : 0;
      metrics.push_back({10 * f, -8 * f});
    }
    return metrics;
  };
  const CircuitCurve curve = trace_curve(keep, 10, {10, -8}, 0.9, 0);
  EXPECT_EQ(curve.at_threshold, 3);
  EXPECT_EQ(curve.threshold_interval.low, 3);
  EXPECT_EQ(curve.threshold_interval.high, 10);
  for (const LevelCount& at : curve.at) EXPECT_EQ(at.interval.low, 3) << at.level;
}

TEST(Circuit, RatiosHaveIntervalsOverPromptsAndSeeds) {
  // The dense model needs 40 parts on every prompt; the sparse one 10, or 20 on every other prompt.
  const auto curve = [](int64_t even, int64_t odd) {
    const KeepFirst keep = [=](const std::vector<int64_t>& counts) {
      std::vector<PromptMetrics> metrics;
      for (const int64_t count : counts) {
        PromptMetrics row;
        for (int p = 0; p < 8; ++p)
          row.push_back(std::min(1.0, static_cast<double>(count) / static_cast<double>(p % 2 ? odd : even)));
        metrics.push_back(row);
      }
      return metrics;
    };
    return trace_curve(keep, 64, PromptMetrics(8, 1), 1.0, 0);
  };
  const CircuitRatio same = compare_curves({curve(40, 40)}, {curve(10, 10)}, 1.0, 3);
  EXPECT_DOUBLE_EQ(same.ratio, 4);
  EXPECT_DOUBLE_EQ(same.interval.low, 4);
  EXPECT_DOUBLE_EQ(same.interval.high, 4);
  const CircuitRatio seeds =
      compare_curves({curve(40, 40), curve(40, 40)}, {curve(10, 10), curve(20, 20)}, 1.0, 3);
  EXPECT_DOUBLE_EQ(seeds.ratio, 80.0 / 30.0);
  EXPECT_DOUBLE_EQ(seeds.interval.low, 2);
  EXPECT_DOUBLE_EQ(seeds.interval.high, 4);
}

// With 1, 2, 3 and 4 of four parts kept: 0.6, 0.5, 1.1 and all of it.
TEST(CircuitSizes, AreaIsUnderTheCurveAndMeanSizeOverAllThresholds) {
  const double shape[] = {0, 0.6, 0.5, 1.1, 1};
  const CircuitCurve curve =
      trace_curve(curve_of([&](int64_t k) { return shape[k]; }), 4, PromptMetrics(4, 2), 0.9, 0);
  // Trapezoids of a quarter each; f above 1 counts as it is.
  EXPECT_NEAR(curve.area, 0.25 * (0.3 + 0.55 + 0.8 + 1.05), 1e-12);
  // Thresholds up to 0.6 need one part, the others three.
  EXPECT_NEAR(curve.mean_size, 0.6 * 1 + 0.4 * 3, 1e-12);
  ASSERT_EQ(curve.at.size(), kLevels.size());
  const int64_t wanted[] = {1, 3, 3, 3};  // at 50, 80, 90 and 95 %
  for (size_t n = 0; n < kLevels.size(); ++n) {
    EXPECT_EQ(curve.at[n].count, wanted[n]);
    EXPECT_EQ(curve.at[n].interval.low, wanted[n]);
    EXPECT_EQ(curve.at[n].interval.high, wanted[n]);
  }
  EXPECT_NEAR(curve.area_interval.low, curve.area, 1e-9);
  EXPECT_NEAR(curve.mean_size_interval.high, curve.mean_size, 1e-9);
}

TEST(CircuitSizes, EveryLevelOfALongCurveIsClosedInOn) {
  const CircuitCurve curve = trace_curve(curve_of([](int64_t k) { return static_cast<double>(k) / 100000; }),
                                         100000, PromptMetrics(4, 2), 0.7, 0);
  EXPECT_EQ(curve.at_threshold, 70000);
  for (const LevelCount& at : curve.at) {
    EXPECT_NEAR(static_cast<double>(at.count), at.level * 100000, 1) << at.level;
  }
  EXPECT_NEAR(curve.area, 0.5, 1e-9);
  EXPECT_NEAR(curve.mean_size, 50000.5, 1e-6);
}

TEST(CircuitSizes, CompareAtEveryLevelByMeanSizeAndArea) {
  const auto straight = [](int64_t needed) {  // a little above k / needed, so that no level is met exactly
    return trace_curve(curve_of([=](int64_t k) {
                         const double kept = k == 0 ? 0 : static_cast<double>(k) + 0.1;
                         return std::min(1.0, kept / static_cast<double>(needed));
                       }),
                       64, PromptMetrics(4, 2), 0.9, 0);
  };
  const CircuitCurve dense = straight(40), sparse = straight(20);
  const CurveComparison comparison = compare_sizes({dense}, {sparse}, 0.9, 3);
  EXPECT_DOUBLE_EQ(comparison.at_threshold.ratio, 2);
  for (const CircuitRatio& ratio : comparison.at) EXPECT_DOUBLE_EQ(ratio.ratio, 2);
  EXPECT_NEAR(comparison.mean_size.ratio, dense.mean_size / sparse.mean_size, 1e-9);
  EXPECT_NEAR(comparison.mean_size.interval.low, comparison.mean_size.ratio, 1e-9);  // all prompts are alike
  EXPECT_NEAR(comparison.mean_size.ratio, 20.5 / 10.5, 0.01);  // means of 1 to 40 and of 1 to 20
  EXPECT_NEAR(comparison.area_difference, (20.0 - 10.0) / 64, 0.002);
}

TEST(CircuitSizes, CountsWithoutPromptsHaveIntervalsOverSeedsAlone) {
  EXPECT_FALSE(compare_counts({8}, {4}, 0).interval);
  const SeedRatio seeds = compare_counts({8, 8}, {4, 2}, 0);
  EXPECT_DOUBLE_EQ(seeds.ratio, 16.0 / 6.0);
  ASSERT_TRUE(seeds.interval);
  EXPECT_DOUBLE_EQ(seeds.interval->low, 2);
  EXPECT_DOUBLE_EQ(seeds.interval->high, 4);
}

class CopyCircuit : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new Transformer(load_model("models/openwork-8m"));
    task_ = new Task(fixture_copy_task(6));
    Sweep sweep("", {});
    circuit_ = new Circuit(find_circuit(*model_, *task_, {.greedy = true}, sweep));
  }
  static Transformer* model_;
  static Task* task_;
  static Circuit* circuit_;
};
Transformer* CopyCircuit::model_ = nullptr;
Task* CopyCircuit::task_ = nullptr;
Circuit* CopyCircuit::circuit_ = nullptr;

TEST_F(CopyCircuit, IsOrderedByEffectAndReachesTheThreshold) {
  EXPECT_EQ(circuit_->order.size(), 64u);
  EXPECT_TRUE(std::is_sorted(circuit_->scores.rbegin(), circuit_->scores.rend()));
  EXPECT_THAT(std::vector<Part>(circuit_->order.begin(), circuit_->order.begin() + 2),
              testing::UnorderedElementsAre(head_part(5, 6), head_part(6, 0)));
  const auto size = static_cast<size_t>(circuit_->heads_at_threshold);
  EXPECT_GE(circuit_->curve.points[size].faithfulness, 0.9);
  for (size_t k = 0; k < size; ++k) EXPECT_LT(circuit_->curve.points[k].faithfulness, 0.9);
  EXPECT_NEAR(circuit_->curve.points.front().faithfulness, 0, 1e-9);
  EXPECT_NEAR(circuit_->curve.points.back().faithfulness, 1, 1e-9);
  EXPECT_FALSE(circuit_->edges_at_threshold);
  EXPECT_LT(circuit_->rest_alone, 0.5);
}

// The claim is tested by acting on it: the named heads alone do the task, and the others without them do not.
TEST_F(CopyCircuit, DroppingSpareHeadsKeepsItFaithful) {
  ASSERT_TRUE(circuit_->greedy);
  EXPECT_LE(static_cast<int64_t>(circuit_->greedy->heads.size()), circuit_->heads_at_threshold);
  AblationRunner runner(*model_, *task_, AblationKind::kMean);
  const NamedCircuit named = evaluate_heads(runner, circuit_->greedy->heads, 0);
  EXPECT_GE(named.faithfulness, 0.9);
  EXPECT_NEAR(named.faithfulness, circuit_->greedy->faithfulness, 1e-6);
  EXPECT_LT(named.rest_alone, named.faithfulness);
}

TEST_F(CopyCircuit, DroppingSpareHeadsLeavesNoMoreAtAnyLevel) {
  ASSERT_EQ(circuit_->greedy_at.size(), kLevels.size());
  for (size_t n = 0; n < kLevels.size(); ++n) {
    EXPECT_LE(circuit_->greedy_at[n], circuit_->curve.at[n].count);
  }
  EXPECT_TRUE(std::is_sorted(circuit_->greedy_at.begin(), circuit_->greedy_at.end()));
  EXPECT_EQ(circuit_->greedy_at[2],
            static_cast<int64_t>(circuit_->greedy->heads.size()));  // 0.9, the threshold
}

// A model beside itself, twice: base, control and sparse in every pairing.
TEST_F(CopyCircuit, ThreeModelsAreComparedInAllPairs) {
  ModelCircuits base;
  base.name = "base", base.circuits = {*circuit_};
  ModelCircuits control = base, sparse = base;
  control.name = "control", sparse.name = "sparse";
  const std::vector<ModelRatio> ratios = compare_models({base, control, sparse}, {.greedy = true});
  ASSERT_EQ(ratios.size(), 3u);
  EXPECT_EQ(ratios[0].dense + " " + ratios[0].sparse, "base control");
  EXPECT_EQ(ratios[1].dense + " " + ratios[1].sparse, "base sparse");
  EXPECT_EQ(ratios[2].dense + " " + ratios[2].sparse, "control sparse");
  for (const ModelRatio& ratio : ratios) {
    EXPECT_DOUBLE_EQ(ratio.sizes.at_threshold.ratio, 1);
    EXPECT_DOUBLE_EQ(ratio.sizes.mean_size.ratio, 1);
    ASSERT_TRUE(ratio.greedy);
    EXPECT_DOUBLE_EQ(ratio.greedy->ratio, 1);
    EXPECT_FALSE(ratio.greedy->interval);  // one seed
  }
}

TEST_F(CopyCircuit, InductionAndPreviousTokenHeadsAreOnTopOfTheirKinds) {
  AblationRunner runner(*model_, *task_, AblationKind::kMean);
  std::vector<HeadRole> roles = describe_heads(*model_, *task_, runner, all_heads(model_->config()));
  const std::vector<std::string> kinds = attention_kinds(*task_);
  const auto best = [&](const std::string& kind, size_t count) {
    const auto column = static_cast<size_t>(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
    std::sort(roles.begin(), roles.end(), [&](const HeadRole& a, const HeadRole& b) {
      return a.attentions[column] > b.attentions[column];
    });
    std::vector<std::string> names;
    for (size_t n = 0; n < count; ++n) names.push_back(roles[n].head.name());
    return names;
  };
  EXPECT_THAT(best("induction", 2), testing::UnorderedElementsAre("L6H0", "L6H3"));
  EXPECT_THAT(best("previous token", 1), testing::ElementsAre("L5H6"));
}

TEST_F(CopyCircuit, ProgressSaysWhichModelItIsOf) {
  Task small = *task_;
  small.prompts.resize(1);
  std::set<std::string> names;
  watch_progress([&](const ProgressState& state) { names.emplace(state.name); });
  Sweep sweep("", {});
  find_circuits(*model_, "dense", {small}, {}, sweep);
  watch_progress({});
  EXPECT_EQ(names, (std::set<std::string>{"dense seed 0: curve", "dense seed 0: effects"}));
}

TEST_F(CopyCircuit, EdgesOfTheDenseModelAreFoundByAttribution) {
  Sweep sweep("", {});
  Task small = *task_;
  small.prompts.resize(2);
  const Circuit edges = find_circuit(
      *model_, small, {.level = CircuitLevel::kAttentionEdge, .method = CircuitMethod::kAttribution}, sweep);
  EXPECT_EQ(edges.candidates, 64 * 50 * 51 / 2);
  ASSERT_TRUE(edges.edges_at_threshold);
  EXPECT_EQ(static_cast<int64_t>(edges.order.size()), *edges.edges_at_threshold);
  EXPECT_LT(*edges.edges_at_threshold, edges.candidates / 10);
  EXPECT_FALSE(edges.by_size);
  EXPECT_TRUE(std::is_sorted(edges.scores.begin(), edges.scores.end(), std::greater<>()));
}

// Candidates add up, but for a pair that is worth 4 together and misleads alone: its halves are estimated at
// +3 and -2.
TEST(CircuitOrder, IsTheOneThatNeedsFewerEdges) {
  const auto needed = [](std::vector<double> scores, double pair_alone, CircuitLevel level) {
    const KeepOrdered keep = [&](const OrderedCurve& ordered, const std::vector<int64_t>& counts) {
      std::vector<PromptMetrics> metrics;
      for (const int64_t count : counts) {
        const auto end = ordered.order.begin() + count;
        const auto kept = [&](size_t n) { return std::find(ordered.order.begin(), end, n) != end; };
        double sum = kept(0) && kept(1) ? 4 : kept(0) || kept(1) ? pair_alone : 0;
        for (size_t n = 2; n < ordered.order.size(); ++n) sum += kept(n) ? 0.25 : 0;
        metrics.push_back({sum});
      }
      return metrics;
    };
    return choose_order(scores, keep, {5}, {.level = level, .threshold = 0.8});
  };
  const OrderedCurve together = needed({3, -2, 0.25, 0.25, 0.25, 0.25}, -1, CircuitLevel::kAttentionEdge);
  EXPECT_TRUE(together.by_size);
  EXPECT_EQ(together.curve.at_threshold, 2);
  EXPECT_EQ(together.order, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
  const OrderedCurve apart = needed({3, -2, 0.25, 0.25, 0.25, 0.25}, 4.5, CircuitLevel::kGraphEdge);
  EXPECT_FALSE(apart.by_size)
      << "one half is as good: an order is as short as the other, and the signed one is taken";
  EXPECT_EQ(apart.curve.at_threshold, 1);
  const OrderedCurve heads = needed({3, -2, 0.25, 0.25, 0.25, 0.25}, -1, CircuitLevel::kHead);
  EXPECT_FALSE(heads.by_size) << "heads keep their signed order";
  EXPECT_EQ(heads.curve.at_threshold, 6);
}

class AttentionEdgeCircuit : public testing::TestWithParam<const char*> {};

TEST_P(AttentionEdgeCircuit, ChoosesAmongOpenGatesOnly) {
  const Transformer model = load_model(std::string("tests/data/") + GetParam());
  Task task = made_up_task(model.config().vocabulary, 3, 9);
  // A task that the heads of a random model do: answers and wrongs the right way round for each prompt.
  AblationRunner runner(model, task, AblationKind::kMean);
  Intervention every;
  for (const HeadPlace& head : all_heads(model.config())) every.push_back(head_part(head));
  const PromptMetrics none = runner.run({every}).front();
  for (size_t p = 0; p < none.size(); ++p) {
    if (runner.clean()[p] > none[p]) continue;
    for (TaskRead& read : task.prompts[p].reads) std::swap(read.answers, read.wrongs);
  }
  Sweep sweep("", {});
  const Circuit circuit = find_circuit(
      model, task, {.level = CircuitLevel::kAttentionEdge, .method = CircuitMethod::kExact}, sweep);
  int64_t open = 0;
  for (int64_t layer = 0; layer < model.config().layers; ++layer)
    open += runner.open_edges(layer).sum().item<int64_t>();
  EXPECT_EQ(circuit.candidates, open);
  EXPECT_LT(open, model.config().layers * model.config().heads * 8 * 9 /
                      2);  // 8 tokens are run: the last is read by none
  // Without its edges a head is ablated: both ways of ablating everything agree.
  EXPECT_NEAR(mean_of(circuit.curve.none), mean_of(find_circuit(model, task, {}, sweep).curve.none), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Gates, AttentionEdgeCircuit, testing::Values("sparse_gpt2_published", "llama_idle"));

TEST(GraphEdgeCircuit, KeepsWhatItCountsAndReachesTheThreshold) {
  const Transformer model = load_model("tests/data/gpt2");
  Task task = made_up_task(model.config().vocabulary, 3, 9);
  AblationRunner runner(model, task, AblationKind::kInterchange);
  for (size_t p = 0; p < task.prompts.size(); ++p) {  // answers the right way round, as above
    if (runner.clean()[p] > runner.corrupt()[p]) continue;
    for (TaskRead& read : task.prompts[p].reads) std::swap(read.answers, read.wrongs);
  }
  Sweep sweep("", {});
  CircuitSettings settings{.level = CircuitLevel::kGraphEdge,
                           .method = CircuitMethod::kExact,
                           .ablation = AblationKind::kInterchange};
  const Circuit circuit = find_circuit(model, task, settings, sweep);
  EXPECT_EQ(static_cast<int64_t>(circuit.edges.size()), *circuit.edges_at_threshold);
  EXPECT_EQ(circuit.edge_scores.size(), circuit.graph->edges().size());
  EXPECT_GE(circuit.curve.points[static_cast<size_t>(*circuit.edges_at_threshold)].faithfulness, 0.9);
  EXPECT_NEAR(mean_of(circuit.curve.none), mean_of(circuit.corrupt),
              1e-5);  // every edge replaced: the corrupt run
  settings.method = CircuitMethod::kAttribution;
  settings.agreement = true;
  const Circuit estimated = find_circuit(model, task, settings, sweep);
  ASSERT_TRUE(estimated.agreement);
  EXPECT_GT(estimated.agreement->correlation, 0.5);
}

TEST(GraphEdgeCircuit, JoinsTheHeadsOfADrawing) {
  const Transformer model = load_model("models/openwork-8m");
  const std::vector<DrawnEdge> edges = connect_heads(model, fixture_copy_task(2), {{5, 6}, {6, 0}}, 5);
  ASSERT_EQ(edges.size(), 5u);
  EXPECT_TRUE(std::any_of(edges.begin(), edges.end(), [](const DrawnEdge& edge) {
    return to_string(edge.from) == "L5H6" && to_string(edge.to) == "L6H0" && edge.input == HeadInput::kKey;
  }));
}

}  // namespace
}  // namespace openwork
