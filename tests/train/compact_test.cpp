// Compact differences: what rounding keeps, what a file may hold, that training for it ends where loading
// begins; and the control's loss curve that a target may follow.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "io/json.h"
#include "model/adapter.h"
#include "model/golden.h"
#include "train/run_fixture.h"

namespace openwork {
namespace {

using at::Tensor;

Tensor gaussian(int64_t rows, int64_t columns) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  return at::empty({rows, columns}).normal_(0, 0.01, generator);
}

double error_share(const Tensor& change, int bits) {
  const Tensor left = change - expand_change(round_change(change, bits), bits);
  return (left.square().sum() / change.square().sum()).item<double>();
}

// The least possible for normally distributed numbers and even levels (Max, 1960), and 1 - 2/pi for signs.
TEST(CompactDifference, RoundsNormalChangesAsWellAsEvenLevelsCan) {
  const Tensor change = gaussian(64, 4096);
  EXPECT_NEAR(error_share(change, 1), 0.3634, 0.01);
  EXPECT_NEAR(error_share(change, 2), 0.1188, 0.005);
  EXPECT_NEAR(error_share(change, 3), 0.0374, 0.003);
  EXPECT_NEAR(error_share(change, 4), 0.0115, 0.001);
}

TEST(CompactDifference, OfNothingIsAllButNothing) {
  const Tensor zero = at::zeros({3, 5});
  for (const int bits : {1, 2, 4}) {
    EXPECT_LE(expand_change(round_change(zero, bits), bits).abs().max().item<double>(), 1e-6);
  }
}

class CompactFolder : public testing::Test {
 protected:
  CompactFolder() : base_(load_model(kBase)), start_(put_gates(base_, GateKind::kLogprob, 2.0)) {
    for (auto& [name, tensor] : start_.parameters) {
      if (tensor.dim() == 2) tensor = tensor + gaussian(tensor.size(0), tensor.size(1));
    }
  }
  void save(const DeltaPlan& plan) const {
    save_delta(folder_ / "small", start_.config, start_.parameters, {kBase, kBase, base_.parameters()}, plan);
  }

  static constexpr const char* kBase = "tests/data/llama";
  const TestFolder folder_;
  Transformer base_;
  StartingPoint start_;
};

TEST_F(CompactFolder, OpensAsTheBasePlusTheRoundedChange) {
  for (const int bits : {1, 2, 3, 5, 8}) {
    DeltaPlan plan;
    for (const auto& [name, tensor] : base_.parameters()) {
      if (tensor.dim() == 2) plan[name] = bits;
    }
    save(plan);
    const Transformer again = load_adapted_model(kBase, folder_ / "small");
    EXPECT_EQ(again.config().gate, GateKind::kLogprob);
    const std::map<std::string, Tensor> own(base_.parameters().begin(), base_.parameters().end());
    for (size_t n = 0; n < start_.parameters.size(); ++n) {
      const auto& [name, trained] = start_.parameters[n];
      Tensor wanted = trained;
      if (plan.contains(name))
        wanted = own.at(name) + expand_change(round_change(trained - own.at(name), bits), bits);
      EXPECT_TRUE(at::equal(again.parameters()[n].second, wanted)) << name << " at " << bits << " bits";
    }
  }
}

TEST_F(CompactFolder, HoldsWhatItsPlanPromisesAndAttentionGetsItsBitsFirst) {
  for (const double kilobytes : {14.0, 20.0, 40.0}) {
    const DeltaPlan plan = plan_delta(start_.config, kilobytes / 1000);
    save(plan);
    EXPECT_LE(static_cast<double>(std::filesystem::file_size(folder_ / "small" / kDeltaFile)),
              1000 * kilobytes);
    int least_attention = 8, most_other = 0;
    for (const auto& [name, bits] : plan) {
      const bool attention = name.find("attn") != name.npos;
      if (attention) least_attention = std::min(least_attention, bits);
      if (!attention) most_other = std::max(most_other, bits);
    }
    EXPECT_GE(least_attention + 1, most_other) << kilobytes;
  }
  EXPECT_THROW(plan_delta(start_.config, 1e-4), Error);
}

TEST_F(CompactFolder, RefusesAnotherBaseAndLyingFiles) {
  save(plan_delta(start_.config, 0.03));
  EXPECT_THROW(load_adapted_model("tests/data/olmo", folder_ / "small"), Error);
  nlohmann::json config = read_json_file(folder_ / "small" / "config.json");
  auto& bits = config["openwork_delta"]["bits"];
  bits[bits.begin().key()] = bits.begin().value().get<int>() + 1;  // the codes are of fewer
  std::ofstream(folder_ / "small" / "config.json") << config.dump();
  EXPECT_THROW(load_adapted_model(kBase, folder_ / "small"), Error);
  config["openwork_delta"]["bits"] = {{"model.norm.weight", 99}};
  std::ofstream(folder_ / "small" / "config.json") << config.dump();
  EXPECT_THROW(load_adapted_model(kBase, folder_ / "small"), Error);
}

// Trained rounded, saved, opened: the same logits, so that what is measured is what was trained.
class CompactTraining : public ::testing::TestWithParam<double> {};

TEST_P(CompactTraining, EndsWhereLoadingBegins) {
  const TestFolder folder;
  Batches batches(write_tokens(folder), 16, 3);
  const std::string base = "tests/data/gpt2";
  StartingPoint start = put_gates(load_model(base), GateKind::kLogprob, 3.0);
  WeightOptions options;
  options.learn_bias = true;
  options.delta = plan_delta(start.config, 0.03);
  TrainedWeights weights(start.config, start.parameters, options);
  LoopOptions loop = tiny_options(folder / "run");
  loop.schedule.rounding = 0.5;
  loop.schedule.rounding_ramp = GetParam();
  run_loop(weights, batches, nullptr, loop);
  const Tensor ids = at::arange(24, at::kLong).view({2, 12});
  const Tensor trained = weights.pass_model().forward(ids);
  save_delta(folder / "small", weights.config(), weights.export_parameters(), {base, base, weights.origin()},
             *options.delta);
  const Tensor loaded = load_adapted_model(base, folder / "small").forward(ids);
  EXPECT_TRUE(at::allclose(trained, loaded, 1e-5, 1e-5));
  const Tensor masters = Transformer(weights.config(), weights.export_parameters()).forward(ids);
  EXPECT_FALSE(at::allclose(masters, loaded, 1e-3, 1e-3));  // rounding is no small thing
}

INSTANTIATE_TEST_SUITE_P(Ramps, CompactTraining, ::testing::Values(0.0, 0.25));

// Weights that a run for a compact difference has moved off the model they started from.
TrainedWeights moved_weights(const std::string& model) {
  StartingPoint start = put_gates(load_model(model), GateKind::kLogprob, 3.0);
  WeightOptions options;
  options.delta = plan_delta(start.config, 0.03);
  TrainedWeights weights(start.config, start.parameters, options);
  weights.masters().add_(gaussian(1, weights.masters().numel()).squeeze(0));
  weights.refresh();
  return weights;
}

// Half-way is the mean of what is trained and what would be saved; back at 0 it is what is trained.
TEST(CompactWeights, ComeOnByShares) {
  TrainedWeights weights = moved_weights("tests/data/gpt2");
  const auto numbers_at = [&](double share) {
    weights.round_to_base(share);
    weights.pass_model();
    std::vector<Tensor> numbers;
    for (const TrainedTensor& tensor : weights.tensors())
      numbers.push_back(tensor.leaf.detach().flatten().clone());
    return at::cat(numbers);
  };
  const Tensor none = numbers_at(0), half = numbers_at(0.5), all = numbers_at(1);
  EXPECT_FALSE(at::allclose(none, all, 1e-3, 1e-3));
  EXPECT_TRUE(at::allclose(half, (none + all) / 2, 1e-6, 1e-6));
  EXPECT_TRUE(at::equal(numbers_at(0), none));
}

// Matrices are rounded together, and end as each of them alone would.
TEST(CompactWeights, AreRoundedAsEachMatrixAlone) {
  TrainedWeights weights = moved_weights("tests/data/llama");
  weights.round_to_base(1);
  weights.pass_model();
  const DeltaPlan& plan = *weights.options().delta;
  const std::map<std::string, Tensor> origin(weights.origin().begin(), weights.origin().end());
  std::set<int> seen;
  for (const TrainedTensor& tensor : weights.tensors()) {
    if (tensor.shape.size() != 2) continue;
    Tensor wanted = origin.at(tensor.name);
    const auto bits = plan.find(tensor.name);
    seen.insert(bits == plan.end() ? 0 : bits->second);
    if (bits != plan.end())
      wanted =
          wanted + expand_change(round_change(weights.master(tensor) - wanted, bits->second), bits->second);
    EXPECT_TRUE(at::equal(tensor.leaf, wanted)) << tensor.name;
  }
  EXPECT_GT(seen.size(), 1U);  // several kinds
}

// A point of a frontier starts from weights that are not the base's; its difference is to the base all the
// same.
TEST(CompactWeights, CountsChangesFromAnOriginWhereOneIsGiven) {
  const Transformer base = load_model("tests/data/gpt2");
  StartingPoint start = put_gates(base, GateKind::kLogprob, 3.0);
  for (auto& [name, tensor] : start.parameters) tensor = tensor + 0.01;
  WeightOptions options;
  options.delta = plan_delta(start.config, 0.03);
  const TrainedWeights weights(start.config, start.parameters, options, base.parameters());
  const std::map<std::string, Tensor> own(base.parameters().begin(), base.parameters().end());
  ASSERT_FALSE(weights.origin().empty());
  for (const auto& [name, tensor] : weights.origin()) EXPECT_TRUE(at::equal(tensor, own.at(name))) << name;
}

TEST(LossCurve, InterpolatesBetweenTheMiddlesOfIntervals) {
  const TestFolder folder;
  std::ofstream(folder / "metrics.jsonl")
      << "{\"step\": 10, \"loss\": 4.0}\n{\"step\": 20, \"loss\": 3.0}\nnot json\n";
  const LossCurve curve(folder / "metrics.jsonl");
  EXPECT_DOUBLE_EQ(curve.at(0), 4.0);
  EXPECT_DOUBLE_EQ(curve.at(5), 4.0);
  EXPECT_DOUBLE_EQ(curve.at(10), 3.5);
  EXPECT_DOUBLE_EQ(curve.at(15), 3.0);
  EXPECT_DOUBLE_EQ(curve.at(99), 3.0);
  EXPECT_THROW(LossCurve(folder / "nothing.jsonl"), Error);
}

}  // namespace
}  // namespace openwork
