#include "analyze/circuits/ablation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "analyze/circuits/sweep.h"
#include "analyze/tasks.h"
#include "base/error.h"
#include "model/load.h"

namespace openwork {
namespace {

// The same ablation as people write it: hooks on a whole forward pass over all prompts, one at a time.
class PlainAblation {
 public:
  PlainAblation(const Transformer& model, const Task& task, AblationKind kind)
      : model_(model), task_(task), kind_(kind) {
    for (const bool clean : {true, false}) {
      std::vector<Tensor> rows;
      for (const TaskPrompt& prompt : task.prompts)
        rows.push_back(at::tensor(clean ? prompt.clean : prompt.corrupt, at::kLong));
      (clean ? clean_ : corrupt_) = at::stack(rows);
    }
  }

  Tensor corrupt_value(Site site, int64_t layer) const {
    Tensor value;
    Taps taps;
    taps.read({site, layer}, [&](const Tensor& x) { value = x; });
    ForwardOptions options;
    options.taps = &taps;
    model_.forward(corrupt_, options);
    if (kind_ == AblationKind::kZero) return at::zeros_like(value);
    return kind_ == AblationKind::kMean ? value.mean(0, true).expand_as(value) : value;
  }

  void add(const Part& part, Taps& taps) const {
    const ModelConfig& config = model_.config();
    const auto replace_head = [&](Site site, int64_t head) {
      const Tensor value = corrupt_value(site, part.layer).select(2, head);
      taps.replace({site, part.layer}, [=](const Tensor& x) {
        Tensor changed = x.clone();
        changed.select(2, head).copy_(value);
        return changed;
      });
    };
    switch (part.kind) {
      case Part::Kind::kHead:
        return replace_head(Site::kZ, part.head);
      case Part::Kind::kQuery:
        return replace_head(Site::kQuery, part.head);
      case Part::Kind::kKey:
        return replace_head(Site::kKey, part.head / config.group_size());
      case Part::Kind::kValue:
        return replace_head(Site::kValue, part.head / config.group_size());
      case Part::Kind::kMlp: {
        const Tensor value = corrupt_value(Site::kMlpOut, part.layer);
        return taps.replace({Site::kMlpOut, part.layer}, [=](const Tensor&) { return value; });
      }
      case Part::Kind::kEdge:
        return add_edge(part, taps);
    }
  }

  // z_i - A_ij v_j + its replacement, from the pattern and the values of this run.
  void add_edge(const Part& part, Taps& taps) const {
    Tensor A, v;
    Taps reading;
    reading.read({Site::kPattern, part.layer}, [&](const Tensor& x) { A = x; });
    reading.read({Site::kValue, part.layer}, [&](const Tensor& x) { v = x; });
    ForwardOptions options;
    options.taps = &reading;
    model_.forward(corrupt_, options);
    const int64_t group = part.head / model_.config().group_size();
    Tensor term = A.select(1, part.head).select(1, part.query).select(1, part.key).unsqueeze(-1) *
                  v.select(1, part.key).select(1, group);  // [P, d]
    if (kind_ == AblationKind::kZero) term = at::zeros_like(term);
    if (kind_ == AblationKind::kMean) term = term.mean(0, true).expand_as(term);
    taps.replace({Site::kPattern, part.layer}, [=](const Tensor& pattern) {
      Tensor changed = pattern.clone();
      changed.select(1, part.head).select(1, part.query).select(1, part.key).zero_();
      return changed;
    });
    taps.replace({Site::kZ, part.layer}, [=](const Tensor& z) {
      Tensor changed = z.clone();
      changed.select(1, part.query).select(1, part.head).add_(term);
      return changed;
    });
  }

  PromptMetrics run(const Intervention& parts) const {
    Taps taps;
    for (const Part& part : parts) add(part, taps);
    ForwardOptions options;
    options.taps = &taps;
    const Tensor logits = model_.forward(clean_, options).to(at::kDouble);
    PromptMetrics metrics;
    for (size_t p = 0; p < task_.prompts.size(); ++p) {
      double sum = 0;
      for (const TaskRead& read : task_.prompts[p].reads) {
        Tensor row = logits[static_cast<int64_t>(p)][read.position];
        if (task_.metric == TaskMetric::kProbabilityDifference) row = row.softmax(0);
        for (const int64_t token : read.answers) sum += row[token].item<double>();
        for (const int64_t token : read.wrongs) sum -= row[token].item<double>();
      }
      metrics.push_back(sum / static_cast<double>(task_.prompts[p].reads.size()));
    }
    return metrics;
  }

 private:
  const Transformer& model_;
  const Task& task_;
  AblationKind kind_;
  Tensor clean_, corrupt_;
};

std::vector<Intervention> interesting_interventions(const ModelConfig& config) {
  const auto last = static_cast<int32_t>(config.layers - 1), head = static_cast<int32_t>(config.heads - 1);
  using Kind = Part::Kind;
  return {{},
          {head_part(0, 0)},
          {head_part(last, head)},
          {head_part(1, 1), head_part(last, 0), mlp_part(1)},
          {mlp_part(last)},
          {{Kind::kQuery, 1, head}},
          {{Kind::kKey, 0, head}},
          {{Kind::kValue, last, head}},
          {{Kind::kEdge, 1, 1, 5, 2}},
          {{Kind::kEdge, last, head, 7, 7}, {Kind::kEdge, 0, 0, 6, 0}, head_part(1, 0)},
          {{Kind::kEdge, last, 0, 6, 3}}};
}

class EveryModel : public testing::TestWithParam<const char*> {};

TEST_P(EveryModel, AblationIsWhatHooksOnAWholePassGive) {
  const at::NoGradGuard no_grad;
  const Transformer model = load_model(std::string("tests/data/") + GetParam());
  Task task = made_up_task(model.config().vocabulary);
  for (const bool sets : {false, true}) {
    if (sets) {
      task.metric = TaskMetric::kProbabilityDifference;
      for (TaskPrompt& prompt : task.prompts) prompt.reads[1].answers = {3, 5, 8};
    }
    for (const AblationKind kind : {AblationKind::kZero, AblationKind::kMean, AblationKind::kInterchange}) {
      AblationRunner runner(model, task, kind);
      const PlainAblation plain(model, task, kind);
      const std::vector<Intervention> interventions = interesting_interventions(model.config());
      const std::vector<PromptMetrics> metrics = runner.run(interventions);
      for (size_t n = 0; n < interventions.size(); ++n) {
        const PromptMetrics expected = plain.run(interventions[n]);
        for (size_t p = 0; p < expected.size(); ++p)
          EXPECT_NEAR(metrics[n][p], expected[p], 2e-5) << n << " " << ablation_name(kind);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, EveryModel,
                         testing::Values("gpt2", "gpt_neox", "llama", "olmo", "olmo2",
                                         "sparse_gpt2_published", "llama_idle"));

TEST(Ablation, EffectsOfEveryHeadAreTheReferences) {
  const Transformer model = load_model("models/openwork-8m");
  const nlohmann::json fixture = read_fixture("copy_heads.json");
  const Task task = fixture_copy_task(fixture["clean"].size());
  const std::pair<AblationKind, const char*> kinds[] = {{AblationKind::kMean, "mean_ablation_effect"},
                                                        {AblationKind::kInterchange, "interchange_effect"},
                                                        {AblationKind::kZero, "zero_ablation_effect"}};
  std::vector<Intervention> heads;
  for (int n = 0; n < 64; ++n) heads.push_back({head_part(n / 8, n % 8)});
  for (const auto& [kind, key] : kinds) {
    AblationRunner runner(model, task, kind);
    EXPECT_NEAR(mean_of(runner.clean()), fixture["clean_metric"].get<double>(), 1e-3);
    EXPECT_NEAR(mean_of(runner.corrupt()), fixture["corrupt_metric"].get<double>(), 1e-3);
    const std::vector<PromptMetrics> metrics = runner.run(heads);
    for (size_t n = 0; n < 64; ++n) {
      EXPECT_NEAR(mean_of(runner.clean()) - mean_of(metrics[n]), fixture[key][n / 8][n % 8].get<double>(),
                  1e-3)
          << key << " " << n;
    }
  }
}

// With every causal edge of a head replaced, the head is replaced.
TEST(Ablation, AHeadIsTheSumOfItsEdges) {
  for (const char* name : {"llama", "sparse_gpt2_published", "llama_idle"}) {
    const Transformer model = load_model(std::string("tests/data/") + name);
    const Task task = made_up_task(model.config().vocabulary);
    for (const AblationKind kind : {AblationKind::kZero, AblationKind::kMean, AblationKind::kInterchange}) {
      AblationRunner runner(model, task, kind);
      Intervention edges;
      const Tensor open = runner.open_edges(1);  // [H, T, T]
      for (int32_t i = 0; i < runner.tokens(); ++i) {
        for (int32_t j = 0; j <= i; ++j) {
          if (open[1][i][j].item<bool>()) edges.push_back({Part::Kind::kEdge, 1, 1, i, j});
        }
      }
      const std::vector<PromptMetrics> metrics = runner.run({edges, {head_part(1, 1)}});
      for (size_t p = 0; p < metrics[0].size(); ++p) EXPECT_NEAR(metrics[0][p], metrics[1][p], 1e-5) << name;
    }
  }
}

// To the bit, whatever the shapes of the passes: effects of 0 are tied, and ties go by layer and head.
TEST(Ablation, AHeadWhoseGatesStayClosedHasNoEffect) {
  const Transformer model = load_model("tests/data/llama_idle");
  const Task task = made_up_task(model.config().vocabulary);
  int64_t closed = 0;
  for (const AblationKind kind : {AblationKind::kZero, AblationKind::kMean, AblationKind::kInterchange}) {
    AblationRunner runner(model, task, kind);
    for (int64_t layer = 0; layer < model.config().layers; ++layer) {
      const Tensor open = runner.open_edges(layer).flatten(1).any(1);  // [H], of clean and corrupt prompts
      for (int64_t head = 0; head < model.config().heads; ++head) {
        if (open[head].item<bool>()) continue;
        ++closed;
        EXPECT_EQ(runner.run({{head_part(layer, head)}})[0], runner.clean()) << layer << " " << head;
        EXPECT_EQ(runner.run({{head_part(0, 0), head_part(layer, head)}})[0],
                  runner.run({{head_part(0, 0)}})[0]);
      }
    }
  }
  EXPECT_GT(closed, 0);
}

TEST(Parts, NamesGoBothWays) {
  const ModelConfig config = load_config("models/openwork-8m");
  for (const char* name : {"L5H1", "L0H7<q>", "L7H0<k>", "L3H3<v>", "m6", "L5H1:8<-5", "L5H1:8<-8"}) {
    EXPECT_EQ(to_string(parse_part(name, config, 9)), name);
  }
  for (const char* name : {"L8H0", "L0H8", "m8", "L5H1:9<-0", "L5H1:4<-5", "L5", "H1", "L5H1<x>", "L-1H0",
                           "L5H1 ", "m", "", "L99999999999H0"}) {
    EXPECT_THROW(parse_part(name, config, 9), Error) << name;
  }
}

TEST(Sweep, GoesOnWhereItWas) {
  const Transformer model = load_model("tests/data/gpt2");
  const Task task = made_up_task(model.config().vocabulary, 3, 9);
  AblationRunner runner(model, task, AblationKind::kMean);
  std::vector<std::string> names;
  std::vector<Intervention> interventions;
  for (int64_t layer = 0; layer < model.config().layers; ++layer) {
    for (int64_t head = 0; head < model.config().heads; ++head)
      interventions.push_back({head_part(layer, head)}), names.push_back(to_string(head_part(layer, head)));
  }
  const std::string path = testing::TempDir() + "openwork_sweep.json";
  std::filesystem::remove(path);
  const std::vector<PromptMetrics> whole = runner.run(interventions);
  {
    Sweep stopped(path, {{"task", 1}});
    stopped.stop_signal = [] { return SIGTERM; };
    EXPECT_THROW(run_sweep(runner, names, interventions, stopped), SweepStopped);
  }
  Sweep resumed(path, {{"task", 1}});
  EXPECT_GT(resumed.size(), 0u);
  EXPECT_LT(resumed.size(), names.size());
  size_t known = 0;
  const std::vector<PromptMetrics> metrics =
      run_sweep(runner, names, interventions, resumed, [&](size_t count) { known = known ? known : count; });
  EXPECT_EQ(known, resumed.size() - (names.size() - known));
  EXPECT_EQ(metrics, whole);
  EXPECT_THROW(Sweep(path, {{"task", 2}}), Error);  // another command's
  resumed.finish();
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace openwork
