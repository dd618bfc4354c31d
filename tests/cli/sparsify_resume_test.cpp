// Runs that are killed, stopped or starved and go on to the same weights, and what may not go on as the same run.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "base/philox.h"
#include "cli/training_command.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Run again with --resume after each kill until it is done; how many kills it took.
int run_with_kills(const ScratchFolder& scratch, const std::string& name,
                   const std::vector<std::string>& options) {
  std::vector<std::string> resumed = options;
  resumed.push_back("--resume");
  for (int kills = 0;; ++kills) {
    const pid_t child = start_openwork(small_run(scratch, name, resumed), scratch / name);
    if (kills < 4) {
      // Somewhere in the next stretch of the run: what has been done is kept, so every attempt gets further.
      await_file(scratch.path() / name / "metrics.jsonl", child);
      usleep(static_cast<useconds_t>(mix_seed(20, static_cast<uint64_t>(kills)) % 400000));
      kill(child, SIGKILL);
    }
    const int code = await(child);
    if (code == 0) return kills;
    EXPECT_EQ(code, 128 + SIGKILL) << read_file(scratch / name + ".err");
    if (code != 128 + SIGKILL) return -1;
  }
}

TEST(SparsifyResume, ARunKilledAtAnyMomentResumesToTheSameWeights) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  // A line of the log to a checkpoint: one that a kill cuts in two tells of the steps since.
  const std::vector<std::string> options = {"--steps",     "24", "--checkpoint-every", "2",
                                            "--log-every", "2",  "--learn-bias",       "--quiet"};
  ASSERT_EQ(run_openwork(small_run(scratch, "whole", options)).exit_code, 0);
  run_with_kills(scratch, "killed", options);
  EXPECT_EQ(sha256_of_file(scratch / "killed/model.safetensors"),
            sha256_of_file(scratch / "whole/model.safetensors"));
  auto whole = read_lines(scratch / "whole/metrics.jsonl"),
       killed = read_lines(scratch / "killed/metrics.jsonl");
  ASSERT_EQ(whole.size(), killed.size());  // every step is told once
  EXPECT_EQ(whole.back().at("loss"), killed.back().at("loss"));
}

TEST(SparsifyResume, TwoRunsInOneFolderDoNotTouchEachOther) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const pid_t first = start_openwork(small_run(scratch, "out", {"--steps", "100000"}), scratch / "first");
  ASSERT_TRUE(await_file(scratch.path() / "out/checkpoints/latest", first))
      << read_file(scratch / "first.err");
  expect_refusal(small_run(scratch, "out", {"--resume"}), "another openwork is writing into this folder");
  kill(first, SIGINT);
  EXPECT_EQ(await(first), 130);
}

TEST(SparsifyResume, SignalsLeaveACheckpointToResumeFrom) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const std::vector<std::string> length = {"--steps", "60", "--checkpoint-every", "20", "--log-every", "1"};
  ASSERT_EQ(run_openwork(small_run(scratch, "whole", length)).exit_code, 0);
  for (const auto& [number, name, code] : {std::tuple{SIGTERM, "ended", 143}, {SIGINT, "stopped", 130}}) {
    const pid_t child = start_openwork(small_run(scratch, name, length), scratch / name);
    await_file(scratch.path() / name / "metrics.jsonl", child);
    kill(child, number);
    EXPECT_EQ(await(child), code) << name;
    EXPECT_FALSE(fs::exists(scratch.path() / name / "model.safetensors")) << name;
    EXPECT_TRUE(fs::exists(scratch.path() / name / "checkpoints/latest")) << name;
    EXPECT_THAT(read_file(scratch / name + ".err"), HasSubstr("continue with --resume"));
    std::vector<std::string> resumed = length;
    resumed.push_back("--resume");
    const ProgramResult result = run_openwork(small_run(scratch, name, resumed));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(sha256_of_file(scratch.path() / name / "model.safetensors"),
              sha256_of_file(scratch / "whole/model.safetensors"))
        << name;
  }
}

TEST(SparsifyResume, AFullDiskEndsInOneLineWithTheLastCheckpointIntact) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "full", {"--quiet", "--steps", "6"})).exit_code, 0);
  fs::remove(scratch / "full/model.safetensors");
  const std::string before = sha256_of_file(scratch / "full/checkpoints/step-00000006/state.safetensors");
  const pid_t child =
      start_openwork(small_run(scratch, "full", {"--quiet", "--resume"}), scratch / "full", {}, 200000);
  EXPECT_EQ(await(child), 1);
  expect_one_line(read_file(scratch / "full.err"), "state.safetensors");
  EXPECT_EQ(sha256_of_file(scratch / "full/checkpoints/step-00000006/state.safetensors"), before);
  for (const auto& entry : fs::directory_iterator(scratch / "full/checkpoints"))
    EXPECT_NE(entry.path().extension(), ".part");
  ASSERT_EQ(run_openwork(small_run(scratch, "full", {"--quiet", "--resume"})).exit_code, 0);
  EXPECT_TRUE(fs::exists(scratch / "full/checkpoints/step-00000012"));
}

// Numbers so large in a model's last norm that its loss is finite and its gradient's norm is not.
void make_gradients_overflow(const fs::path& weights) {
  std::string bytes = read_file(weights);
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), 8);
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, header_size));
  const nlohmann::json& place = header.at("transformer.ln_f.weight").at("data_offsets");
  const float large = 3e37F;
  for (uint64_t at = place.at(0); at < place.at(1).get<uint64_t>(); at += sizeof large)
    std::memcpy(bytes.data() + 8 + header_size + at, &large, sizeof large);
  std::ofstream(weights, std::ios::binary) << bytes;
}

TEST(SparsifyResume, ALossThatIsNotFiniteEndsInOneLine) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "start", {"--quiet", "--steps", "1"})).exit_code, 0);
  make_gradients_overflow(scratch / "start/model.safetensors");
  std::vector<std::string> arguments = small_run(scratch, "broken", {"--quiet", "--log-every", "1"});
  arguments[1] = scratch / "start";
  *std::find(arguments.begin(), arguments.end(), "random") = "pretrained";
  const ProgramResult result = run_openwork(arguments);
  EXPECT_EQ(result.exit_code, 1);
  expect_one_line(result.err, "not finite by step 1");
  EXPECT_FALSE(fs::exists(scratch / "broken/model.safetensors"));
  EXPECT_FALSE(fs::exists(scratch / "broken/checkpoints/latest"));
}

// What the default schedule makes of --lr 1e-3 at `seconds` of a run of three, its warm-up left out.
double rate_by_the_clock(double seconds) {
  return 1e-3 * std::clamp((1 - seconds / 3) / 0.2, 0.0, 1.0);
}

// A machine may hold any step up for seconds: nothing is said here of how long one takes, only of what the clock
// makes of it.
TEST(SparsifyResume, ARunByTheClockGoesOnWhereItStopped) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  std::vector<std::string> arguments = small_run(scratch, "timed", {"--minutes", "0.05", "--log-every", "1"});
  const auto steps = std::find(arguments.begin(), arguments.end(), "--steps");
  arguments.erase(steps, steps + 2);
  const pid_t child = start_openwork(arguments, scratch / "timed");
  await_file(scratch.path() / "timed/metrics.jsonl", child);
  usleep(700000);
  kill(child, SIGTERM);
  ASSERT_EQ(await(child), 143);
  const size_t before = read_lines(scratch / "timed/metrics.jsonl").size();
  arguments.push_back("--resume");
  const ProgramResult result = run_openwork(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::vector<double> seconds = {0}, rates = {0};
  for (const nlohmann::json& line : read_lines(scratch / "timed/metrics.jsonl")) {
    seconds.push_back(line.at("seconds"));
    rates.push_back(line.at("learning_rate"));
  }
  EXPECT_GT(before, 0U);
  EXPECT_GT(seconds.size(), before + 1);
  for (size_t n = 1; n < seconds.size(); ++n) {
    EXPECT_GE(seconds[n], seconds[n - 1]) << n;  // one clock
    EXPECT_LT(seconds[n - 1], 3) << "a step began when the time was over";
    if (seconds[n - 1] < 0.06) continue;  // warm-up
    EXPECT_GE(rates[n], rate_by_the_clock(seconds[n]) - 1e-9) << n;
    EXPECT_LE(rates[n], rate_by_the_clock(seconds[n - 1]) + 1e-9) << n;
  }
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "timed/report.json"));
  EXPECT_GE(report.at("sparse").at("training").at("seconds").get<double>(), 3) << "it ended early";
}

TEST(SparsifyResume, AStateOfOlderGateNoiseIsNotResumed) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "old", {"--quiet", "--steps", "3"})).exit_code, 0);
  const std::string file = scratch / "old/checkpoints/step-00000003/state.json";
  nlohmann::json state = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(state.at("noise"), 2);
  state.erase("noise");
  std::ofstream(file) << state.dump();
  fs::remove(scratch.path() / "old/checkpoints/step-00000003/SHA256SUMS");  // the older program wrote none
  expect_refusal(small_run(scratch, "old", {"--quiet", "--resume"}), "gate noise 1");
}

TEST(Resume, OptionsThatMakeAnotherRunAreRefusedByName) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "run", {"--steps", "2", "--quiet"})).exit_code, 0);
  const std::vector<std::tuple<std::string, std::string, std::string>> changes = {
      {"--clip", "0.5", "clip is 0.5"},
      {"--warmup", "0.2", "warmup is 0.2"},
      {"--decay", "0.1", "decay is 0.1"},
      {"--noise-anneal", "0.2", "noise_anneal is 0.2"},
      {"--multiplier-rate", "0.4", "multiplier_rate is 0.4"}};
  for (const auto& [option, value, message] : changes)
    expect_refusal(small_run(scratch, "run", {"--resume", "--steps", "4", "--quiet", option, value}),
                   message);
}

TEST(Resume, AFinishedFrontierIsNotTakenForAnother) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const auto frontier = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--frontier", "2", "--steps", "4", "--quiet"};
    options.insert(options.end(), more.begin(), more.end());
    return small_run(scratch, "run", options);
  };
  ASSERT_EQ(run_openwork(frontier({})).exit_code, 0);
  const std::string report = read_file(scratch / "run/report.json");
  const std::vector<std::tuple<std::string, std::string, std::string>> changes = {
      {"--gate", "score", "gate is \"score\""},  // of the points
      {"--head-penalty", "7", "head_penalty is 7"},
      {"--weight-decay", "1", "weight_decay is 1"},  // of the control too
      {"--seed", "9", "seed is 9"}};
  for (const auto& [option, value, message] : changes)
    expect_refusal(frontier({"--resume", option, value}), message);
  EXPECT_EQ(read_file(scratch / "run/report.json"), report);

  // With its own options it is there already, and where the disk is full the model stays whole.
  const std::string model = sha256_of_file(scratch / "run/model.safetensors");
  const pid_t child = start_openwork(frontier({"--resume"}), scratch / "full", {},
                                     fs::file_size(scratch / "run/model.safetensors") - 1);
  EXPECT_EQ(await(child), 1);
  expect_one_line(read_file(scratch / "full.err"), "model.safetensors");
  EXPECT_EQ(sha256_of_file(scratch / "run/model.safetensors"), model);
  EXPECT_EQ(run_openwork(frontier({"--resume"})).exit_code, 0);
}

TEST(Resume, AControlServesOtherRunsOfItsLength) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "first", {"--control", "--steps", "2", "--quiet"})).exit_code, 0);
  fs::create_directory(scratch / "second");
  fs::copy(scratch / "first/control", scratch / "second/control", fs::copy_options::recursive);
  const std::vector<std::string> given = {"--control", "--resume", "--quiet", "--head-penalty", "2"};
  const auto second = [&](const char* steps) {
    std::vector<std::string> options = given;
    options.insert(options.end(), {"--steps", steps});
    return small_run(scratch, "second", options);
  };
  expect_refusal(second("6"), "steps is 6, but the run to resume has 2");
  std::vector<std::string> fewer = second("2");
  *std::next(std::find(fewer.begin(), fewer.end(), "--held-out-blocks")) = "1";
  expect_refusal(fewer, "held_out_blocks is 1, but the run to resume has");
  const ProgramResult result = run_openwork(second("2"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto control_of = [&](const std::string& run) {
    return nlohmann::json::parse(read_file(scratch / run + "/report.json")).at("control");
  };
  EXPECT_EQ(control_of("second"), control_of("first"));
  // As the refusal says, it trains on without its result.
  fs::remove(scratch / "second/control/result.json");
  ASSERT_EQ(run_openwork(second("6")).exit_code, 0);
  EXPECT_EQ(control_of("second").at("training").at("steps"), 6);
}

TEST(Resume, AWholeModelDoesNotGoOnAsACompactDifference) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const std::vector<std::string> length = {"--steps", "1", "--quiet"};
  ASSERT_EQ(run_openwork(sparsify(scratch, "run", length)).exit_code, 0);
  expect_refusal(sparsify(scratch, "run", {"--steps", "2", "--quiet", "--resume", "--compact", "5"}),
                 "compact is 5");
}

TEST(Resume, AnotherTextOfTheSameNameAndSizeIsAnotherRun) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "run", {"--steps", "2", "--quiet"})).exit_code, 0);
  const std::string before = read_file(scratch / "run/data/data.json");
  std::string text = read_file(scratch / "documents.jsonl");
  const size_t letter = text.find('e', text.size() / 2);
  text[letter] = 'i';
  std::ofstream(scratch / "documents.jsonl") << text;
  expect_refusal(small_run(scratch, "run", {"--resume", "--steps", "4", "--quiet"}),
                 "the data is not what the run");
  EXPECT_EQ(read_file(scratch / "run/data/data.json"), before);
}

}  // namespace
}  // namespace openwork
