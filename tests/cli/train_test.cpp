// sparsify and pretrain as a person runs them, on the CPU: 30 steps, the files they leave, stopping and
// resuming, full disks and broken numbers, and what they refuse.
#include <gmock/gmock.h>
#include <pty.h>

#include <cstring>

#include "base/philox.h"
#include "cli/training_command.h"
#include "io/sha256.h"
#include "io/tensor_file.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<std::string> sparsify(const ScratchFolder& scratch, const std::string& out,
                                  std::vector<std::string> more) {
  std::vector<std::string> arguments = {"sparsify",
                                        "openwork-8m",
                                        "--data",
                                        scratch / "documents.jsonl",
                                        "--out",
                                        scratch / out,
                                        "--held-out",
                                        "0.1",
                                        "--batch-tokens",
                                        "256",
                                        "--quiet",
                                        "--device",
                                        "cpu",
                                        "--threads",
                                        "1",
                                        "--held-out-blocks",
                                        "4"};
  if (std::find(more.begin(), more.end(), "--context") == more.end()) {
    arguments.insert(arguments.end(), {"--context", "64"});
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Sparsify, ThirtyStepsCloseEdgesAndLeaveAModelThatOpens) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const ProgramResult result = run_openwork(
      sparsify(scratch, "out",
               {"--steps", "30", "--lr", "1e-3", "--tolerance", "2", "--gate-bias", "4", "--learn-bias",
                "--bias-lr", "0.02", "--control", "--log-every", "5", "--json", scratch / "result.json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("dense control"));
  const auto lines = read_lines(scratch / "out/metrics.jsonl");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_LT(lines.back().at("penalty").get<double>(), 0.9 * lines.front().at("penalty").get<double>());
  for (const char* name :
       {"config.json", "model.safetensors", "tokenizer.json", "report.md", "report.json", "metrics.jsonl",
        "base.json", "control/model.safetensors", "control/metrics.jsonl", "checkpoints/latest"}) {
    EXPECT_TRUE(fs::exists(scratch.path() / "out" / name)) << name;
  }
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "result.json"));
  EXPECT_EQ(report.at("sparse").at("training").at("tokens"), 30 * 256);
  EXPECT_EQ(report.at("base").at("kept_edges"), 1.0);
  EXPECT_LT(report.at("sparse").at("kept_edges").get<double>(), 0.3);
  EXPECT_EQ(report.at("base").at("tokens"), report.at("sparse").at("tokens"));
  EXPECT_EQ(report.at("base").at("tokens"), report.at("control").at("tokens"));
  EXPECT_THAT(report.at("command").get<std::string>(), HasSubstr("--learn-bias"));
  EXPECT_EQ(report.at("options").at("gate"), "idle");
  EXPECT_EQ(report.at("options").at("idle"), 5.0);
  EXPECT_EQ(report.at("protocol").at("noise"), 2);
  const nlohmann::json& target = report.at("target");
  EXPECT_NEAR(target.at("wanted"), report.at("base").at("nats_per_token").get<double>() + 2, 1e-12);
  EXPECT_EQ(target.at("reached"), report.at("sparse").at("nats_per_token"));
  EXPECT_EQ(target.at("kind"), "base");
  EXPECT_NE(target.at("gap"), 0.15);  // it was measured

  // The report measured what the folder holds: eval on the held-out shard says the same.
  const ProgramResult eval =
      run_openwork({"eval", scratch / "out", "--data", scratch / "out/data/held_out.safetensors", "--context",
                    "64", "--blocks", "4", "--json", "-", "--quiet", "--device", "cpu", "--threads", "1"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  EXPECT_NEAR(eval.json().at("models").at(0).at("nats_per_token").get<double>(),
              report.at("sparse").at("nats_per_token").get<double>(), 1e-9);
  EXPECT_NEAR(eval.json().at("models").at(0).at("kept_edges").get<double>(),
              report.at("sparse").at("kept_edges").get<double>(), 1e-12);
}

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

TEST(Sparsify, ARunKilledAtAnyMomentResumesToTheSameWeights) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const std::vector<std::string> options = {"--steps", "24",           "--checkpoint-every",
                                            "2",       "--learn-bias", "--quiet"};
  ASSERT_EQ(run_openwork(small_run(scratch, "whole", options)).exit_code, 0);
  run_with_kills(scratch, "killed", options);
  EXPECT_EQ(sha256_of_file(scratch / "killed/model.safetensors"),
            sha256_of_file(scratch / "whole/model.safetensors"));
  auto whole = read_lines(scratch / "whole/metrics.jsonl"),
       killed = read_lines(scratch / "killed/metrics.jsonl");
  ASSERT_EQ(whole.size(), killed.size());  // every step is told once
  EXPECT_EQ(whole.back().at("loss"), killed.back().at("loss"));
}

TEST(Sparsify, SignalsLeaveACheckpointToResumeFrom) {
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

TEST(Sparsify, AFullDiskEndsInOneLineWithTheLastCheckpointIntact) {
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
  const float large = 1e25F;
  for (uint64_t at = place.at(0); at < place.at(1).get<uint64_t>(); at += sizeof large)
    std::memcpy(bytes.data() + 8 + header_size + at, &large, sizeof large);
  std::ofstream(weights, std::ios::binary) << bytes;
}

TEST(Sparsify, ALossThatIsNotFiniteEndsInOneLine) {
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

TEST(Sparsify, SaysOnceThatATargetCannotBeReached) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const ProgramResult result = run_openwork(
      small_run(scratch, "out",
                {"--target-loss", "0.1", "--multiplier-max", "1.2", "--log-every", "1", "--steps", "40"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string words = "cannot be reached at this learning rate";
  ASSERT_THAT(result.err, HasSubstr(words));
  EXPECT_EQ(result.err.find(words, result.err.find(words) + 1), std::string::npos);
}

// The gate biases (or idle scores) of a saved model, layer after layer.
std::vector<float> read_gate_biases(const fs::path& folder, const std::string& name = ".gate_bias") {
  std::vector<float> biases;
  const auto file = open_weights(folder);
  for (const TensorEntry& entry : file->entries()) {
    if (!entry.name.ends_with(name)) continue;
    std::vector<float> values(static_cast<size_t>(entry.element_count()));
    read_bytes(entry, std::as_writable_bytes(std::span(values)));
    biases.insert(biases.end(), values.begin(), values.end());
  }
  return biases;
}

TEST(Sparsify, GateBiasesFollowTheirScheduleAndLearn) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "moved", {"--quiet", "--gate-bias", "5", "--gate-bias-end", "3"}))
                .exit_code,
            0);
  EXPECT_THAT(read_gate_biases(scratch / "moved"), testing::Each(testing::FloatNear(3, 1e-5F)));
  ASSERT_EQ(run_openwork(small_run(scratch, "learned",
                                   {"--quiet", "--gate-bias", "3", "--learn-bias", "--bias-lr", "0.05"}))
                .exit_code,
            0);
  const std::vector<float> learned = read_gate_biases(scratch / "learned");
  ASSERT_EQ(learned.size(), 4u);
  for (const float bias : learned) EXPECT_GT(std::abs(bias - 3), 1e-3F);
  EXPECT_NE(learned[0], learned[3]);
}

TEST(Sparsify, IdleScoresStayMoveAndLearn) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "fixed", {"--quiet", "--idle", "2"})).exit_code, 0);
  EXPECT_THAT(read_gate_biases(scratch / "fixed", ".gate_idle"), testing::Each(2.0F));
  ASSERT_EQ(
      run_openwork(small_run(scratch, "moved", {"--quiet", "--idle", "2", "--idle-end", "4"})).exit_code, 0);
  EXPECT_THAT(read_gate_biases(scratch / "moved", ".gate_idle"), testing::Each(testing::FloatNear(4, 1e-5F)));
  ASSERT_EQ(run_openwork(small_run(scratch, "learned",
                                   {"--quiet", "--idle", "0.5", "--learn-idle", "--idle-lr", "0.05"}))
                .exit_code,
            0);
  for (const float score : read_gate_biases(scratch / "learned", ".gate_idle"))
    EXPECT_GT(std::abs(score - 0.5F), 1e-4F);
}

// A run with these options, and the same killed by SIGTERM on its way and resumed.
void expect_exact_resume(const ScratchFolder& scratch, const std::string& name,
                         std::vector<std::string> options) {
  options.insert(options.end(), {"--steps", "40", "--log-every", "1", "--checkpoint-every", "20"});
  ASSERT_EQ(run_openwork(small_run(scratch, name + "-whole", options)).exit_code, 0) << name;
  const pid_t child = start_openwork(small_run(scratch, name, options), scratch / name);
  await_file(scratch.path() / name / "metrics.jsonl", child);
  kill(child, SIGTERM);
  EXPECT_EQ(await(child), 143) << name;
  options.push_back("--resume");
  const ProgramResult result = run_openwork(small_run(scratch, name, options));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(sha256_of_file(scratch.path() / name / "model.safetensors"),
            sha256_of_file(scratch.path() / (name + "-whole") / "model.safetensors"))
      << name;
}

TEST(Sparsify, EveryWayOfSteeringResumesToTheSameWeights) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  expect_exact_resume(scratch, "steered",
                      {"--head-penalty-form", "sqrt", "--head-penalty-over", "batch", "--sharpness-end", "4",
                       "--learn-idle", "--tolerance", "0.1"});
  expect_exact_resume(scratch, "lengths", {"--lengths", "8,32", "--idle-end", "3", "--target-loss", "8"});
}

TEST(Sparsify, ARunByTheClockGoesOnWhereItStopped) {
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
  const double before = read_lines(scratch / "timed/metrics.jsonl").back().at("seconds");
  arguments.push_back("--resume");
  const ProgramResult result = run_openwork(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = read_lines(scratch / "timed/metrics.jsonl");
  double last = 0;
  for (const nlohmann::json& line : lines) {  // one clock
    EXPECT_GE(line.at("seconds").get<double>(), last);
    last = line.at("seconds");
  }
  EXPECT_GT(before, 0.3);
  EXPECT_GE(last, 2.9);  // a line is written just before the clock is read again
  EXPECT_LT(last, 6);
  EXPECT_LT(lines.back().at("learning_rate").get<double>(), 0.5e-3);  // the schedule ended with it
  EXPECT_LT(nlohmann::json::parse(read_file(scratch / "timed/report.json"))
                .at("sparse")
                .at("training")
                .at("seconds")
                .get<double>(),
            6);
}

TEST(Sparsify, TheControlsLossIsATarget) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const ProgramResult result = run_openwork(small_run(
      scratch, "out", {"--quiet", "--target", "control", "--tolerance", "0.05", "--log-every", "1"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "out/report.json"));
  EXPECT_EQ(report.at("target").at("kind"), "control");
  EXPECT_NEAR(report.at("target").at("wanted"),
              report.at("control").at("nats_per_token").get<double>() + 0.05, 1e-12);
  // On the way it is the control's loss there: higher, since that was still learning.
  const auto lines = read_lines(scratch / "out/metrics.jsonl");
  EXPECT_GT(lines.front().at("target").get<double>() - 0.15,
            report.at("target").at("wanted").get<double>() + 0.01);
}

TEST(Sparsify, AFrontierLeavesAModelAtEveryPoint) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const std::vector<std::string> options = {"--frontier", "3", "--steps", "36", "--log-every", "2"};
  const ProgramResult result = run_openwork(small_run(scratch, "out", options));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("point-2: wanted"));
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "out/report.json"));
  const nlohmann::json& frontier = report.at("frontier");
  ASSERT_EQ(frontier.size(), 3u);
  for (size_t n = 0; n < 3; ++n) {
    const std::string folder = scratch / "out/point-" + std::to_string(n + 1);
    EXPECT_EQ(frontier[n].at("tokens"), (n + 1) * 12 * 256);
    const ProgramResult eval =
        run_openwork({"eval", folder, "--data", scratch / "out/data/held_out.safetensors", "--context", "32",
                      "--blocks", "4", "--json", "-", "--quiet", "--device", "cpu", "--threads", "1"});
    ASSERT_EQ(eval.exit_code, 0) << eval.err;
    EXPECT_NEAR(eval.json().at("models").at(0).at("nats_per_token").get<double>(),
                frontier[n].at("held_out_loss").get<double>(), 1e-9);
    for (const char* key : {"target", "kept_edges", "open_heads"})
      EXPECT_TRUE(frontier[n].contains(key)) << key;
    if (n > 0) {
      EXPECT_GT(frontier[n].at("target"), frontier[n - 1].at("target"));
    }
  }
  EXPECT_NEAR(frontier[0].at("target"), report.at("control").at("nats_per_token").get<double>() + 0.03,
              1e-12);
  EXPECT_EQ(sha256_of_file(scratch / "out/model.safetensors"),
            sha256_of_file(scratch / "out/point-3/model.safetensors"));
  EXPECT_TRUE(fs::exists(scratch / "out/report.svg"));

  // Stopped in its second point and resumed, it ends at the same models.
  const pid_t child = start_openwork(small_run(scratch, "cut", options), scratch / "cut");
  await_file(scratch.path() / "cut/point-2/metrics.jsonl", child);
  kill(child, SIGTERM);
  ASSERT_EQ(await(child), 143);
  std::vector<std::string> resumed = options;
  resumed.push_back("--resume");
  const ProgramResult again = run_openwork(small_run(scratch, "cut", resumed));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(sha256_of_file(scratch / "cut/model.safetensors"),
            sha256_of_file(scratch / "out/model.safetensors"));
}

TEST(Sparsify, CompactAndFrontierGoTogether) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const ProgramResult result =
      run_openwork(sparsify(scratch, "out", {"--steps", "6", "--frontier", "2", "--compact", "3"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "out/report.json"));
  for (const std::string& folder : {scratch / "out/point-1", scratch / "out"}) {
    EXPECT_LT(fs::file_size(folder + "/openwork_delta.safetensors"), 3000000u);
    const ProgramResult eval =
        run_openwork({"eval", folder, "--data", scratch / "out/data/held_out.safetensors", "--context", "64",
                      "--blocks", "4", "--json", "-", "--quiet", "--device", "cpu", "--threads", "1"});
    ASSERT_EQ(eval.exit_code, 0) << eval.err;
    EXPECT_NEAR(eval.json().at("models").at(0).at("nats_per_token").get<double>(),
                report.at("frontier").at(folder.ends_with("1") ? 0 : 1).at("held_out_loss").get<double>(),
                1e-9);
  }
}

TEST(Sparsify, AStateOfOlderGateNoiseIsNotResumed) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "old", {"--quiet", "--steps", "3"})).exit_code, 0);
  const std::string file = scratch / "old/checkpoints/step-00000003/state.json";
  nlohmann::json state = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(state.at("noise"), 2);
  state.erase("noise");
  std::ofstream(file) << state.dump();
  expect_refusal(small_run(scratch, "old", {"--quiet", "--resume"}), "gate noise 1");
}

TEST(Sparsify, TheNoiseEndsBeforeTheRunDoes) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "out", {"--quiet", "--noise-anneal", "0.5", "--log-every", "1"}))
                .exit_code,
            0);
  const auto lines = read_lines(scratch / "out/metrics.jsonl");
  ASSERT_EQ(lines.size(), 12u);
  for (size_t n = 0; n < 6; ++n) EXPECT_EQ(lines[n].at("hard_steps"), 0.0) << n;
  for (size_t n = 10; n < 12; ++n) EXPECT_EQ(lines[n].at("hard_steps"), 1.0) << n;
}

TEST(Sparsify, ShardsAndTextTrainTheSameModel) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "text", {"--quiet"})).exit_code, 0);
  // The same documents as the shards of the first run, and once more as plain text.
  std::vector<std::string> arguments =
      small_run(scratch, "shards", {"--quiet", "--held-out", scratch / "text/data/held_out.safetensors"});
  std::replace(arguments.begin(), arguments.end(), scratch / "documents.jsonl",
               scratch / "text/data/train.safetensors");
  const ProgramResult shards = run_openwork(arguments);
  ASSERT_EQ(shards.exit_code, 0) << shards.err;
  EXPECT_EQ(sha256_of_file(scratch / "shards/model.safetensors"),
            sha256_of_file(scratch / "text/model.safetensors"));
  std::ofstream plain(scratch / "documents.txt");
  for (const nlohmann::json& line : read_lines(scratch / "documents.jsonl"))
    plain << line.at("text").get<std::string>() << "<|endoftext|>";
  plain.close();
  arguments = small_run(scratch, "plain", {"--quiet"});
  std::replace(arguments.begin(), arguments.end(), scratch / "documents.jsonl", scratch / "documents.txt");
  ASSERT_EQ(run_openwork(arguments).exit_code, 0);
  EXPECT_EQ(sha256_of_file(scratch / "plain/model.safetensors"),
            sha256_of_file(scratch / "text/model.safetensors"));
}

TEST(Sparsify, RecomputedLayersTrainTheSameModel) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "kept", {"--quiet"})).exit_code, 0);
  ASSERT_EQ(run_openwork(small_run(scratch, "again", {"--quiet", "--recompute"})).exit_code, 0);
  EXPECT_EQ(sha256_of_file(scratch / "again/model.safetensors"),
            sha256_of_file(scratch / "kept/model.safetensors"));
}

TEST(Sparsify, DrawsItsLossAndKeptEdges) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const ProgramResult result = run_openwork(
      small_run(scratch, "out",
                {"--quiet", "--control", "--measurements", "12", "--log-every", "1", "--gate-bias", "2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string picture = read_file(scratch / "out/report.svg");
  EXPECT_TRUE(picture.starts_with("<?xml")) << picture.substr(0, 60);
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "out/report.json"));
  const nlohmann::json& curves = report.at("curves");
  EXPECT_EQ(curves.at("tokens").size(), 12u);
  EXPECT_EQ(curves.at("loss").size(), 12u);
  EXPECT_EQ(curves.at("target").size(), 12u);
  EXPECT_EQ(curves.at("kept_edges").size(), 12u);
  EXPECT_EQ(curves.at("held_out_loss").size(), 11u);  // and the report's own at the end
  EXPECT_EQ(report.at("control_curves").at("loss").size(), 12u);
  EXPECT_THAT(read_file(scratch / "out/report.md"), HasSubstr("report.svg"));
}

// What the program shows on a terminal.
std::string run_on_terminal(const std::vector<std::string>& arguments) {
  int terminal = 0;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    std::vector<char*> argv = {strdup("openwork")};
    for (const std::string& argument : arguments) argv.push_back(strdup(argument.c_str()));
    argv.push_back(nullptr);
    execv(program_path().c_str(), argv.data());
    _exit(127);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(terminal, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  close(terminal);
  EXPECT_EQ(await(child), 0) << text;
  return text;
}

TEST(Sparsify, ItsProgressTellsHowItGoes) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const std::string text = run_on_terminal(small_run(scratch, "out", {"--steps", "60", "--log-every", "1"}));
  EXPECT_THAT(text, testing::ContainsRegex("sparsify: [0-9]+ / 60 steps .[0-9]+ %., [0-9]+ s left, loss "
                                           "[0-9.]+ .target [0-9.]+., lambda [0-9.]+, "
                                           "kept edges [0-9.]+ %, open heads [0-9]+, [0-9]+ tokens/s"));
}

TEST(Sparsify, AnAdapterOpensWithItsBase) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const ProgramResult result = run_openwork(
      sparsify(scratch, "adapter", {"--steps", "4", "--lora", "4", "--lora-targets", "attention"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(fs::exists(scratch / "adapter/model.safetensors"));
  const nlohmann::json of_base =
      run_openwork({"eval", "openwork-8m", "--data", scratch / "adapter/data/held_out.safetensors",
                    "--context", "64", "--blocks", "1", "--json", "-", "--quiet", "--device", "cpu",
                    "--threads", "1"})
          .json();
  const std::string base = of_base.at("protocol").at("models").at(0).at("sha256");
  EXPECT_FALSE(of_base.at("protocol").at("models").at(0).contains("adapter"));
  const double reported =
      nlohmann::json::parse(read_file(scratch / "adapter/report.json")).at("sparse").at("nats_per_token");
  for (const std::string& name : {"openwork-8m+" + (scratch / "adapter"), scratch / "adapter"}) {
    const ProgramResult eval =
        run_openwork({"eval", name, "--data", scratch / "adapter/data/held_out.safetensors", "--context",
                      "64", "--blocks", "4", "--json", "-", "--quiet", "--device", "cpu", "--threads", "1"});
    ASSERT_EQ(eval.exit_code, 0) << name << "\n" << eval.err;
    EXPECT_NEAR(eval.json().at("models").at(0).at("nats_per_token").get<double>(), reported, 1e-9) << name;
    EXPECT_LT(eval.json().at("models").at(0).at("kept_edges").get<double>(), 1) << name;
    const nlohmann::json files = eval.json().at("protocol").at("models").at(0);
    EXPECT_EQ(files.at("sha256"), base);
    EXPECT_EQ(files.at("adapter").at("path"), "adapter");
    EXPECT_EQ(files.at("adapter").at("sha256").get<std::string>().size(), 64u);
    EXPECT_NE(files.at("adapter").at("sha256"), base);
  }
}

TEST(Pretrain, LearnsFromNothing) {
  const ScratchFolder scratch;
  const std::string data = write_documents(scratch);
  std::ofstream(scratch / "small.json") << small_config().dump();
  const ProgramResult result = run_openwork({"pretrain",
                                             "--config",
                                             scratch / "small.json",
                                             "--tokenizer",
                                             "models/openwork-8m/tokenizer.json",
                                             "--data",
                                             data,
                                             "--held-out",
                                             "0.1",
                                             "--out",
                                             scratch / "out",
                                             "--steps",
                                             "40",
                                             "--lr",
                                             "1e-2",
                                             "--context",
                                             "64",
                                             "--batch-tokens",
                                             "512",
                                             "--quiet",
                                             "--device",
                                             "cpu",
                                             "--threads",
                                             "1",
                                             "--held-out-blocks",
                                             "4"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = read_lines(scratch / "out/metrics.jsonl");
  EXPECT_GT(lines.front().at("loss").get<double>(), 7.5);
  EXPECT_LT(lines.back().at("loss").get<double>(), 7);
  const ProgramResult run = run_openwork({"run", scratch / "out", "the", "--quiet", "--device", "cpu"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Pretrain, LearnsItsOwnTokenizer) {
  const ScratchFolder scratch;
  const std::string data = write_documents(scratch);
  nlohmann::json config = small_config();
  config["vocab_size"] = 512;
  std::ofstream(scratch / "small.json") << config.dump();
  std::vector<std::string> arguments = {"pretrain",
                                        "--config",
                                        scratch / "small.json",
                                        "--train-tokenizer",
                                        "500",
                                        "--data",
                                        data,
                                        "--held-out",
                                        "0.1",
                                        "--out",
                                        scratch / "out",
                                        "--steps",
                                        "4",
                                        "--context",
                                        "64",
                                        "--batch-tokens",
                                        "512",
                                        "--quiet",
                                        "--device",
                                        "cpu",
                                        "--threads",
                                        "1",
                                        "--held-out-blocks",
                                        "4"};
  const ProgramResult result = run_openwork(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string tokenizer = read_file(scratch / "out/tokenizer.json");
  EXPECT_EQ(nlohmann::json::parse(tokenizer).at("model").at("vocab").size(), 500u);
  const ProgramResult run = run_openwork({"run", scratch / "out", "the", "--quiet", "--device", "cpu"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  arguments.insert(arguments.end(), {"--resume"});
  ASSERT_EQ(run_openwork(arguments).exit_code, 0);
  EXPECT_EQ(read_file(scratch / "out/tokenizer.json"), tokenizer);
}

TEST(BadInput, TrainingOptionsThatMakeNoRun) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const auto refuse = [&](std::vector<std::string> more, const std::string& message) {
    expect_refusal(sparsify(scratch, "refused", std::move(more)), message);
  };
  refuse({}, "the length of the run is not clear");
  refuse({"--steps", "3", "--minutes", "1"}, "the length of the run is not clear");
  refuse({"--steps", "3", "--context", "1024"}, "the model's context is 512");
  refuse({"--steps", "3", "--context", "100"}, "--batch-tokens 256 is not a multiple of --context 100");
  refuse({"--steps", "3", "--accumulate", "3"}, "cannot be cut into 3 passes");
  refuse({"--steps", "3", "--gate", "hope"}, "hope");
  refuse({"--steps", "3", "--full", "--lora", "4"}, "--full and --lora together");
  refuse({"--steps", "3", "--lora", "4", "--lora-targets", "q_proj"}, "no module is called 'q_proj'");
  refuse({"--steps", "3", "--warmup", "0.9"}, "overlap");
  refuse({"--steps", "3", "--target-loss", "3", "--tolerance", "0.1"}, "--tolerance");
  refuse({"--steps", "3", "--target", "hope"}, "hope");
  refuse({"--steps", "3", "--target", "control", "--target-loss", "3"}, "--target");
  refuse({"--steps", "3", "--target-from-control"}, "--target-from-control without --control");
  refuse({"--steps", "3", "--frontier", "2", "--tolerance", "0.1"}, "--tolerance");
  refuse({"--steps", "3", "--frontier", "2", "--lora", "4"}, "--frontier with --lora");
  refuse({"--steps", "3", "--frontier", "4"}, "3 steps cannot be shared by 4 points");
  refuse({"--steps", "3", "--frontier", "0"}, "--frontier");
  refuse({"--steps", "3", "--gate", "logprob", "--idle", "3"}, "--idle with --gate logprob");
  refuse({"--steps", "3", "--gate", "score", "--learn-idle"}, "--learn-idle with --gate score");
  refuse({"--steps", "3", "--sharpness", "3"}, "a sharpness of 3; --sharpness; give 1, 2 or 4");
  refuse({"--steps", "3", "--sharpness-end", "8"}, "--sharpness-end");
  refuse({"--steps", "3", "--head-penalty-form", "cube"}, "cube");
  refuse({"--steps", "3", "--head-penalty-over", "corpus"}, "corpus");
  refuse({"--steps", "3", "--lengths", "48,64"}, "blocks of 48 tokens do not fill a context of 64");
  refuse({"--steps", "3", "--lengths", "64,64"}, "named twice");
  refuse({"--steps", "3", "--data", scratch / "missing.txt"}, "missing.txt");
  EXPECT_FALSE(fs::exists(scratch / "refused/model.safetensors"));
  expect_refusal({"sparsify", "openwork-9m", "--data", "x", "--out", scratch / "o", "--steps", "1"},
                 "openwork-9m");
  expect_refusal({"pretrain", "--config", scratch / "none.json", "--tokenizer", "models/openwork-8m",
                  "--data", "x", "--out", scratch / "o", "--steps", "1"},
                 "none.json");
}

TEST(BadInput, TokenizersThatCannotBeLearned) {
  const ScratchFolder scratch;
  const std::string data = write_documents(scratch);
  std::ofstream(scratch / "small.json") << small_config().dump();
  const auto refuse = [&](const std::vector<std::string>& more, const std::string& message) {
    std::vector<std::string> arguments = {"pretrain",    "--config",   scratch / "small.json",
                                          "--data",      data,         "--out",
                                          scratch / "o", "--steps",    "1",
                                          "--context",   "64",         "--batch-tokens",
                                          "64",          "--held-out", "0.1",
                                          "--device",    "cpu",        "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refusal(arguments, message);
  };
  refuse({}, "the tokenizer is not clear");
  refuse({"--train-tokenizer", "300", "--tokenizer", "models/openwork-8m"}, "the tokenizer is not clear");
  refuse({"--train-tokenizer", "100"}, "--train-tokenizer");
  refuse({"--train-tokenizer", "9000"}, "but the model has 8192 tokens");
}

TEST(BadInput, AFolderThatHoldsARunIsNotOverwritten) {
  const ScratchFolder scratch;
  write_documents(scratch);
  fs::create_directories(scratch.path() / "used");
  std::ofstream(scratch / "used/model.safetensors") << "precious";
  expect_refusal(sparsify(scratch, "used", {"--steps", "2"}), "already holds a run or a model");
  EXPECT_EQ(read_file(scratch / "used/model.safetensors"), "precious");
}

}  // namespace
}  // namespace openwork
