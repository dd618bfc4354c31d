// What sparsify aims at and by which means: targets, frontiers, gate biases, idle scores, noise.
#include <gmock/gmock.h>

#include "cli/training_command.h"
#include "io/sha256.h"
#include "io/tensor_file.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(SparsifySteering, SaysOnceThatATargetCannotBeReached) {
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

TEST(SparsifySteering, SaysOnceThatARunMayBeRunningAway) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  // The rate rises to the end of the run, far beyond what the model stands.
  const ProgramResult result =
      run_openwork(small_run(scratch, "out",
                             {"--lr", "3", "--warmup", "1", "--decay", "0", "--log-every", "1", "--steps",
                              "200", "--checkpoint-every", "0", "--target-loss", "9"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string words = "the run may be running away";
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

TEST(SparsifySteering, GateBiasesFollowTheirScheduleAndLearn) {
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

TEST(SparsifySteering, IdleScoresStayMoveAndLearn) {
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

TEST(SparsifySteering, TheDenseControlCanBeTrainedAlone) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const std::vector<std::string> steps = {"--steps", "3", "--measurements", "10"};
  std::vector<std::string> both = steps, alone = steps;
  both.push_back("--control"), alone.insert(alone.end(), {"--gate", "none"});
  ASSERT_EQ(run_openwork(sparsify(scratch, "both", both)).exit_code, 0);
  const ProgramResult result = run_openwork(sparsify(scratch, "alone", alone));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(sha256_of_file(scratch / "alone/model.safetensors"),
            sha256_of_file(scratch / "both/control/model.safetensors"));
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "alone/report.json")),
                       with_twin = nlohmann::json::parse(read_file(scratch / "both/report.json"));
  EXPECT_EQ(report.at("base").at("nats_per_token"), with_twin.at("base").at("nats_per_token"));
  EXPECT_EQ(report.at("control").at("nats_per_token"), with_twin.at("control").at("nats_per_token"));
  EXPECT_FALSE(report.contains("sparse"));
  const ProgramResult refused =
      run_openwork(sparsify(scratch, "refused", {"--gate", "none", "--steps", "3", "--distill", "1"}));
  EXPECT_EQ(refused.exit_code, 2);
  expect_one_line(refused.err, "--distill with --gate none");
  EXPECT_FALSE(fs::exists(scratch / "refused"));
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

TEST(SparsifySteering, EveryWayOfSteeringResumesToTheSameWeights) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  expect_exact_resume(scratch, "steered",
                      {"--head-penalty-form", "sqrt", "--head-penalty-over", "batch", "--sharpness-end", "4",
                       "--learn-idle", "--tolerance", "0.1"});
  expect_exact_resume(scratch, "lengths", {"--lengths", "8,32", "--idle-end", "3", "--target-loss", "8"});
}

TEST(SparsifySteering, TheControlsLossIsATarget) {
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

// The distance of a run's first step from its teacher, gates as good as open.
double first_distance(const ScratchFolder& scratch, const std::string& out, const std::string& teacher) {
  const ProgramResult result = run_openwork(
      small_run(scratch, out,
                {"--distill", "1", "--distill-every", "1", "--distill-from", teacher, "--gate-bias", "60",
                 "--idle", "-60", "--lr", "0.01", "--warmup", "0", "--log-every", "1", "--steps", "12"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return read_lines(scratch.path() / out / "metrics.jsonl").front().at("distance");
}

TEST(SparsifySteering, TheTeacherIsTheBaseOrTheControl) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  EXPECT_NEAR(first_distance(scratch, "base", "base"), 0, 1e-6);  // the model starts as the base is
  EXPECT_FALSE(fs::exists(scratch / "base/control"));
  EXPECT_GT(first_distance(scratch, "control", "control"), 1e-3);
  EXPECT_TRUE(fs::exists(scratch / "control/control/result.json"));  // trained though nobody asked
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "control/report.json"));
  EXPECT_EQ(report.at("options").at("distill_from"), "control");
  const ProgramResult alone = run_openwork(small_run(scratch, "alone", {"--distill-from", "control"}));
  EXPECT_EQ(alone.exit_code, 2);
  expect_one_line(alone.err, "--distill-from requires --distill");
}

TEST(SparsifySteering, AnAdapterLearnsFromItsControlsAdapter) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const ProgramResult result = run_openwork(sparsify(
      scratch, "out", {"--steps", "4", "--lora", "4", "--distill", "1", "--distill-from", "control"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(fs::exists(scratch / "out/control/adapter_model.safetensors"));
  const ProgramResult drawn = run_openwork(
      small_run(scratch, "drawn", {"--lora", "4", "--distill", "1", "--distill-from", "control"}));
  EXPECT_EQ(drawn.exit_code, 2);
  expect_one_line(drawn.err, "--distill-from control with --lora and --init random");
}

TEST(SparsifySteering, AFrontierLeavesAModelAtEveryPoint) {
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
  const auto tokens = report.at("curves").at("tokens").get<std::vector<double>>();  // of all three points
  EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
  EXPECT_EQ(tokens.back(), 36 * 256);
  EXPECT_EQ(tokens.size(), report.at("curves").at("loss").size());

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

TEST(SparsifySteering, CompactAndFrontierGoTogether) {
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

TEST(SparsifySteering, TheNoiseEndsBeforeTheRunDoes) {
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

}  // namespace
}  // namespace openwork
