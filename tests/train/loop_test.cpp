// The loop's promises: however a batch is cut the step is the same, a resumed run ends at the same bits, and
// nothing that goes wrong takes the last checkpoint with it.
#include "train/loop.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "base/progress.h"
#include "train/checkpoint.h"
#include "train/run_fixture.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

class TrainingLoop : public testing::Test {
 protected:
  void SetUp() override {
    set_quiet(true);
    at::set_num_threads(1);
  }
  TestFolder folder_;
};

std::vector<nlohmann::json> read_metrics(const fs::path& folder) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST_F(TrainingLoop, MicroBatchesGiveTheSameGradientsAndTheSameGates) {
  TinyRun whole(folder_), cut(folder_);
  LoopOptions options = tiny_options(folder_ / "whole", 1);
  whole.run(options);
  options.folder = folder_ / "cut";
  options.accumulate = 4;
  cut.run(options);
  EXPECT_LT((whole.weights.gradients() - cut.weights.gradients()).abs().max().item<double>(), 1e-6);
  EXPECT_GT(whole.weights.gradients().abs().max().item<double>(), 1e-3);
  const auto first = read_metrics(folder_ / "whole"), second = read_metrics(folder_ / "cut");
  EXPECT_EQ(first.at(0).at("kept_edges"),
            second.at(0).at("kept_edges"));  // a count: equal means the same gates
  EXPECT_NEAR(first.at(0).at("penalty").get<double>(), second.at(0).at("penalty").get<double>(), 1e-6);
}

TEST_F(TrainingLoop, ClosesEdgesAndTellsTheStory) {
  TinyRun run(folder_);
  LoopOptions options = tiny_options(folder_ / "out", 40);
  options.target = 6;  // loose: the penalty is what is left to lower
  const LoopResult result = run.run(options);
  EXPECT_EQ(result.steps, 40);
  EXPECT_EQ(result.tokens, 40 * 4 * 16);
  const auto lines = read_metrics(folder_ / "out");
  ASSERT_EQ(lines.size(), 14u);
  EXPECT_LT(lines.back().at("kept_edges").get<double>(), 0.7 * lines.front().at("kept_edges").get<double>());
  EXPECT_LT(lines.back().at("penalty").get<double>(), lines.front().at("penalty").get<double>());
  EXPECT_EQ(lines.front().at("hard_steps"), 0.0);
  EXPECT_EQ(lines.back().at("hard_steps"), 1.0);
  for (const char* key : {"step", "tokens", "loss", "target", "lambda", "open_heads", "learning_rate",
                          "tokens_per_second", "seconds"}) {
    EXPECT_TRUE(lines.front().contains(key)) << key;
  }
}

TEST_F(TrainingLoop, TheHeadPenaltysWeightMovesWithTheRun) {
  const auto gradients = [&](const std::string& name, std::optional<double> end) {
    TinyRun run(folder_);
    LoopOptions options = tiny_options(folder_ / name, 8);
    options.loss.head_penalty = 5;
    options.schedule.head_penalty_end = end;
    run.run(options);
    return run.weights.gradients().clone();
  };
  const at::Tensor stays = gradients("stays", std::nullopt);
  EXPECT_TRUE(gradients("same", 5).equal(stays));
  EXPECT_FALSE(gradients("goes", 0).equal(stays));
}

TEST_F(TrainingLoop, AResumedRunEndsAtTheSameBits) {
  for (const auto& [name, options_of_lora] : ways_to_train()) {
    TinyRun whole(folder_, options_of_lora), first(folder_, options_of_lora),
        second(folder_, options_of_lora);
    whole.run(tiny_options(folder_ / (name + "-whole")));
    // A run of 12 steps that got to step 7 when the machine went down: its checkpoint of step 5 is what is
    // left.
    const fs::path folder = folder_ / (name + "-cut");
    LoopOptions options = tiny_options(folder);
    const pid_t child = fork();
    if (child == 0) {
      options.checkpoint_every = 5;
      std::thread([&] {
        while (!fs::exists(folder / "checkpoints" / "latest")) usleep(100);
        kill(getpid(), SIGKILL);
      }).detach();
      first.run(options);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(fs::exists(folder / "checkpoints" / "latest"));
    options.resume = true;
    const LoopResult result = second.run(options);
    EXPECT_EQ(result.steps, 12);
    EXPECT_TRUE(at::equal(whole.weights.masters(), second.weights.masters())) << name;
    EXPECT_EQ(read_metrics(folder).back().at("lambda"),
              read_metrics(folder_ / (name + "-whole")).back().at("lambda"));
  }
}

TEST_F(TrainingLoop, AResumedRunKnowsHowLargeItsGradientsWere) {
  LoopOptions options = tiny_options(folder_ / "out", 60);
  options.log_every = 1;
  TinyRun(folder_).run(options);
  // As though gradients had been a thousandth of what they are from here on.
  std::vector<nlohmann::json> lines = read_metrics(folder_ / "out");
  std::ofstream file(folder_ / "out" / "metrics.jsonl");
  for (nlohmann::json& line : lines) {
    line["gradient_norm"] = line["gradient_norm"].get<double>() / 1000;
    file << line.dump() << "\n";
  }
  file.close();
  options.steps = 70;
  options.resume = true;
  set_quiet(false);
  testing::internal::CaptureStderr();
  TinyRun(folder_).run(options);
  set_quiet(true);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("warning: by step 65 gradients have grown"));
}

// Every option whose state a checkpoint must hold, at once.
LoopOptions rich_options(const fs::path& folder) {
  LoopOptions options = tiny_options(folder);
  options.loss.head_form = HeadForm::kLog;
  options.loss.head_over_batch = true;
  options.lengths = {4, 16};
  options.schedule.idle_shift = 0.4;
  options.schedule.sharpness_end = 4;
  options.held_out_target = HeldOutTarget{.wanted = 4};
  options.measurements = 10;
  // What it measures need only be a function of the weights.
  options.measure = [](const Transformer& model) {
    return HeldOutPoint{model.parameters().front().second.abs().mean().item<double>(), 0.5};
  };
  return options;
}

TEST_F(TrainingLoop, AResumedRunEndsAtTheSameBitsWithEveryOption) {
  TinyRun whole(folder_, {}, GateKind::kIdle), first(folder_, {}, GateKind::kIdle),
      second(folder_, {}, GateKind::kIdle);
  const LoopResult wanted = whole.run(rich_options(folder_ / "whole"));
  LoopOptions options = rich_options(folder_ / "cut");
  const pid_t child = fork();
  if (child == 0) {
    const auto measure = options.measure;
    int measured = 0;
    options.measure = [&](const Transformer& model) {  // killed at its 7th of 10 measurements, after step 5
      if (++measured == 7) kill(getpid(), SIGKILL);
      return measure(model);
    };
    first.run(options);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(CheckpointFolder(folder_ / "cut" / "checkpoints").latest(), 5);
  options.resume = true;
  const LoopResult result = second.run(options);
  EXPECT_TRUE(at::equal(whole.weights.masters(), second.weights.masters()));
  EXPECT_EQ(result.gap, wanted.gap);
  EXPECT_NE(result.gap, 0.15);
  EXPECT_EQ(result.lambda, wanted.lambda);
  const nlohmann::json one = read_metrics(folder_ / "whole").back(),
                       two = read_metrics(folder_ / "cut").back();
  for (const char* key : {"loss", "target", "held_out_loss", "gap", "gate_idle", "sharpness", "kept_edges"})
    EXPECT_EQ(one.at(key), two.at(key)) << key;
  EXPECT_EQ(two.at("sharpness"), 4.0);
}

TEST_F(TrainingLoop, AimsAtTheWantedHeldOutLossPlusTheGap) {
  TinyRun run(folder_);
  LoopOptions options = tiny_options(folder_ / "out", 20);
  options.log_every = 1;
  options.schedule.target_slack = 0;
  options.held_out_target = HeldOutTarget{.wanted = 4};
  options.measurements = 10;
  options.measure = [](const Transformer&) { return HeldOutPoint{4.2, 0.25}; };
  run.run(options);
  const auto lines = read_metrics(folder_ / "out");
  EXPECT_DOUBLE_EQ(lines.front().at("target"), 4.15);  // before the first measurement
  int measured = 0;
  for (size_t n = 0; n + 1 < lines.size(); ++n) {
    if (!lines[n].contains("gap")) continue;
    ++measured;
    EXPECT_EQ(lines[n].at("held_out_tokens"), lines[n].at("tokens"));
    EXPECT_NEAR(lines[n].at("gap"), lines[n].at("average_loss").get<double>() - 4.2, 1e-12);
    EXPECT_NEAR(lines[n + 1].at("target"), 4 + lines[n].at("gap").get<double>(), 1e-12);
  }
  EXPECT_EQ(measured, 9);  // the tenth is the end's, and the caller's
}

TEST_F(TrainingLoop, HeadsAreWeighedByTheBatchBeforeHoweverItIsCut) {
  TinyRun whole(folder_), cut(folder_), sampled(folder_);
  LoopOptions options = tiny_options(folder_ / "whole", 3);
  options.loss.head_penalty = 5;
  options.loss.head_over_batch = true;
  options.schedule.noise_anneal = 0;
  whole.run(options);
  options.folder = folder_ / "cut";
  options.accumulate = 4;
  cut.run(options);
  EXPECT_LT((whole.weights.gradients() - cut.weights.gradients()).abs().max().item<double>(), 1e-4);
  options.folder = folder_ / "sampled";
  options.loss.head_over_batch = false;
  sampled.run(options);
  EXPECT_GT((whole.weights.gradients() - sampled.weights.gradients()).abs().max().item<double>(), 1e-3);
  at::Tensor means = at::zeros({whole.weights.config().layers, whole.weights.config().heads}, at::kDouble);
  CheckpointFolder(folder_ / "whole" / "checkpoints").read_tensors(3, {{"head_means", means}});
  EXPECT_GT(means.min().item<double>(), 0);
  EXPECT_LT(means.max().item<double>(), 1);
}

TEST_F(TrainingLoop, BlocksOfMixedLengthsAreTheSameHoweverTheBatchIsCut) {
  TinyRun whole(folder_), cut(folder_);
  LoopOptions options = tiny_options(folder_ / "whole", 1);
  options.lengths = {4, 8, 16};
  whole.run(options);
  options.folder = folder_ / "cut";
  options.accumulate = 4;
  cut.run(options);
  EXPECT_LT((whole.weights.gradients() - cut.weights.gradients()).abs().max().item<double>(), 1e-6);
  EXPECT_GT(whole.weights.gradients().abs().max().item<double>(), 1e-3);
  const auto first = read_metrics(folder_ / "whole").at(0), second = read_metrics(folder_ / "cut").at(0);
  EXPECT_EQ(first.at("kept_edges"), second.at("kept_edges"));
  EXPECT_EQ(first.at("tokens"), 4 * 16);
  EXPECT_GT(first.at("kept_edges").get<double>(), 0);
  EXPECT_LE(first.at("kept_edges").get<double>(), 1);
}

TEST_F(TrainingLoop, TheIdleScoreIsFixedMovedOrLearned) {
  const auto train = [&](const std::string& name, double shift, bool learn) {
    const StartingPoint start = put_gates(load_model("tests/data/gpt2"), GateKind::kIdle, 3.0, 0.5);
    WeightOptions weight_options;
    weight_options.learn_idle = learn;
    TrainedWeights weights(start.config, start.parameters, weight_options);
    Batches batches(write_tokens(folder_), 16, 3);
    LoopOptions options = tiny_options(folder_ / name);
    options.schedule.idle_shift = shift;
    run_loop(weights, batches, nullptr, options);
    std::vector<at::Tensor> scores;
    for (const TrainedTensor& tensor : weights.tensors()) {
      if (tensor.segment == Segment::kGateIdle) scores.push_back(weights.master(tensor).clone());
    }
    return at::cat(scores);
  };
  const at::Tensor fixed = train("fixed", 0, false), moved = train("moved", 2, false),
                   learned = train("learned", 0, true);
  EXPECT_TRUE(at::equal(fixed, at::full_like(fixed, 0.5)));
  EXPECT_TRUE(at::allclose(moved, at::full_like(moved, 2.5), 0, 1e-5));
  EXPECT_GT((learned - 0.5).abs().min().item<double>(), 1e-4);
}

TEST_F(TrainingLoop, ACheckpointOfOlderGateNoiseIsRefusedByName) {
  TinyRun run(folder_);
  LoopOptions options = tiny_options(folder_ / "out", 3);
  run.run(options);
  const fs::path file = folder_ / "out" / "checkpoints" / "step-00000003" / "state.json";
  nlohmann::json state = nlohmann::json::parse(std::ifstream(file));
  EXPECT_EQ(state.at("noise"), 2);
  state.erase("noise");
  std::ofstream(file) << state.dump();
  fs::remove(file.parent_path() / "SHA256SUMS");  // the older program wrote none
  options.resume = true;
  options.steps = 6;
  expect_failure(Error::Kind::kInput, "gate noise 1, but this program draws noise 2",
                 [&] { TinyRun(folder_).run(options); });
}

TEST_F(TrainingLoop, AnInterruptWritesACheckpointAndSaysSo) {
  TinyRun run(folder_);
  LoopOptions options = tiny_options(folder_ / "out", 300);
  options.checkpoint_every = 0;
  std::thread interrupt([&] {
    while (!fs::exists(folder_ / "out" / "metrics.jsonl")) usleep(100);
    usleep(20000);
    kill(getpid(), SIGTERM);
  });
  const LoopResult result = run.run(options);
  interrupt.join();
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_LT(result.steps, 300);
  EXPECT_EQ(CheckpointFolder(folder_ / "out" / "checkpoints").latest(), result.steps);
}

TEST_F(TrainingLoop, ALossThatIsNotFiniteEndsTheRunWithTheLastCheckpointIntact) {
  TinyRun run(folder_);
  LoopOptions options = tiny_options(folder_ / "out", 5);
  run.run(options);
  const auto before = CheckpointFolder(folder_ / "out" / "checkpoints").latest();
  TinyRun broken(folder_);
  options.resume = true;
  options.steps = 40;
  options.learning_rate = 1e30;
  options.adamw.clip = 0;
  expect_failure(Error::Kind::kFailure, "not finite", [&] { broken.run(options); });
  EXPECT_EQ(CheckpointFolder(folder_ / "out" / "checkpoints").latest(), before);
  TinyRun after(folder_);
  options.learning_rate = 1e-3;
  EXPECT_EQ(after.run(options).steps, 40);
}

TEST_F(TrainingLoop, RefusesToResumeAnotherRun) {
  TinyRun run(folder_);
  LoopOptions options = tiny_options(folder_ / "out", 3);
  options.identity = {{"seed", 3}};
  run.run(options);
  options.resume = true;
  options.identity = {{"seed", 4}};
  expect_failure(Error::Kind::kInput, "seed is 4, but the run to resume has 3",
                 [&] { TinyRun(folder_).run(options); });
  options.identity = {{"seed", 3}};
  expect_failure(Error::Kind::kInput, "another model", [&] {
    TinyRun(folder_, LoraOptions{2, 2, {"mlp"}}).run(options);
  });
}

TEST_F(TrainingLoop, AFullDiskLeavesThePreviousCheckpoint) {
  TinyRun run(folder_);
  run.run(tiny_options(folder_ / "out", 5));
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100000, 100000};  // less than one checkpoint
    setrlimit(RLIMIT_FSIZE, &limit);
    TinyRun full(folder_);
    LoopOptions options = tiny_options(folder_ / "out", 12);
    options.resume = true;
    try {
      full.run(options);
    } catch (const Error& error) {
      _exit(error.exit_code());
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(CheckpointFolder(folder_ / "out" / "checkpoints").latest(), 5);
  TinyRun after(folder_);
  LoopOptions options = tiny_options(folder_ / "out", 12);
  options.resume = true;
  EXPECT_EQ(after.run(options).steps, 12);
}

TEST(CheckpointFolder, KeepsTheNewestTwoAndIgnoresUnfinishedOnes) {
  const TestFolder scratch;
  const fs::path folder = scratch / "checkpoints";
  CheckpointFolder checkpoints(folder);
  EXPECT_EQ(checkpoints.latest(), std::nullopt);
  for (const int64_t step : {10, 20, 30}) {
    checkpoints.save(step, {{"x", at::full({3}, static_cast<double>(step), at::kFloat)}}, {{"step", step}});
  }
  fs::create_directories(folder / "step-00000040.part");
  EXPECT_EQ(checkpoints.latest(), 30);
  EXPECT_FALSE(fs::exists(folder / "step-00000010"));
  EXPECT_TRUE(fs::exists(folder / "step-00000020"));
  at::Tensor x = at::zeros({3});
  checkpoints.read_tensors(30, {{"x", x}});
  EXPECT_TRUE(at::equal(x, at::full({3}, 30.0, at::kFloat)));
  fs::remove(folder / "latest");  // killed between the rename and `latest`
  EXPECT_EQ(checkpoints.latest(), 30);
  at::Tensor wrong = at::zeros({4});
  EXPECT_THROW(checkpoints.read_tensors(30, {{"x", wrong}}), Error);
}

// Three checkpoints that each hold their step.
CheckpointFolder save_steps(const fs::path& folder) {
  CheckpointFolder checkpoints(folder, 3);
  for (const int64_t step : {10, 20, 30})
    checkpoints.save(step, {{"x", at::full({300}, static_cast<double>(step), at::kFloat)}}, {{"step", step}});
  return checkpoints;
}

void flip_byte(const fs::path& file, int64_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at);
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(at);
  stream.put(byte);
}

TEST(CheckpointFolder, ABrokenNewestOneFallsBackToTheOneBefore) {
  set_quiet(true);
  const std::vector<std::function<void(const fs::path&)>> damages = {
      [](const fs::path& step) { flip_byte(step / "state.safetensors", 700); },
      [](const fs::path& step) { flip_byte(step / "state.json", 3); },
      [](const fs::path& step) { fs::resize_file(step / "state.safetensors", 100); },
      [](const fs::path& step) { fs::resize_file(step / "SHA256SUMS", 10); },
      [](const fs::path& step) { fs::remove(step / "state.json"); },
      [](const fs::path& step) { fs::remove_all(step), fs::create_directories(step); },
  };
  for (const auto& damage : damages) {
    const TestFolder scratch;
    const fs::path folder = scratch / "checkpoints";
    CheckpointFolder checkpoints = save_steps(folder);
    damage(folder / "step-00000030");
    checkpoints.recover();
    EXPECT_EQ(checkpoints.latest(), 20);
    EXPECT_EQ(read_whole(folder / "latest"), "step-00000020\n");
    EXPECT_TRUE(fs::exists(folder / "step-00000030.broken"));
    checkpoints.save(30, {{"x", at::ones({3})}}, {{"step", 30}});  // the name is free again
    EXPECT_EQ(checkpoints.read_state(30).at("step"), 30);
    EXPECT_FALSE(fs::exists(folder / "step-00000030.broken"));
  }
}

TEST(CheckpointFolder, WhereNoneIsWholeNothingIsChanged) {
  const TestFolder scratch;
  const fs::path folder = scratch / "checkpoints";
  const CheckpointFolder checkpoints = save_steps(folder);
  for (const char* step : {"step-00000010", "step-00000020", "step-00000030"})
    flip_byte(folder / step / "state.safetensors", 700);
  expect_bad_input("no checkpoint is whole (step 30", [&] { checkpoints.recover(); });
  EXPECT_EQ(checkpoints.latest(), 30);
}

TEST(CheckpointFolder, LatestIsRepairedAfterAKillBeforeItWasWritten) {
  const TestFolder scratch;
  const fs::path folder = scratch / "checkpoints";
  const CheckpointFolder checkpoints = save_steps(folder);
  for (const char* text : {"step-00000020\n", "step-00000099\n", ""}) {
    std::ofstream(folder / "latest") << text;
    checkpoints.recover();
    EXPECT_EQ(read_whole(folder / "latest"), "step-00000030\n");
  }
}

// Killed while it removed the oldest, after its last checkpoint: no later one takes the rest away.
TEST(CheckpointFolder, WhatAKillLeftHalfRemovedGoesWhenTheRunGoesOn) {
  const TestFolder scratch;
  const fs::path folder = scratch / "checkpoints";
  const CheckpointFolder checkpoints = save_steps(folder);
  fs::rename(folder / "step-00000010", folder / "step-00000010.part");
  fs::create_directories(folder / "step-00000040.123.part");
  checkpoints.recover();
  EXPECT_FALSE(fs::exists(folder / "step-00000010.part"));
  EXPECT_FALSE(fs::exists(folder / "step-00000040.123.part"));
  EXPECT_EQ(checkpoints.latest(), 30);
}

TEST(CheckpointFolder, OnesOfAnOlderProgramHaveNoSumsAndAreTaken) {
  const TestFolder scratch;
  const CheckpointFolder checkpoints = save_steps(scratch / "checkpoints");
  fs::remove(scratch / "checkpoints" / "step-00000030" / "SHA256SUMS");
  checkpoints.recover();
  EXPECT_EQ(checkpoints.latest(), 30);
}

TEST_F(TrainingLoop, ARunWhoseNewestCheckpointBrokeEndsAtTheSameBits) {
  TinyRun whole(folder_), broken(folder_), resumed(folder_);
  whole.run(tiny_options(folder_ / "whole"));
  LoopOptions options = tiny_options(folder_ / "broken");
  broken.run(options);
  flip_byte(folder_ / "broken/checkpoints/step-00000012/state.safetensors", 5000);
  options.resume = true;
  resumed.run(options);
  EXPECT_TRUE(at::equal(resumed.weights.masters(), whole.weights.masters()));
}

}  // namespace
}  // namespace openwork
