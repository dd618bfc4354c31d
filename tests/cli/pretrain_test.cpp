// pretrain as a person runs it, on the CPU, and what training refuses before it begins.
#include <gmock/gmock.h>

#include "cli/training_command.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Pretrain, LearnsFromNothing) {
  const ScratchFolder scratch;
  write_documents(scratch);
  std::ofstream(scratch / "small.json") << small_config().dump();
  const ProgramResult result =
      run_openwork(pretrain(scratch, {"--tokenizer", "openwork-8m", "--steps", "40", "--lr", "1e-2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = read_lines(scratch / "out/metrics.jsonl");
  EXPECT_GT(lines.front().at("loss").get<double>(), 7.5);
  EXPECT_LT(lines.back().at("loss").get<double>(), 7);
  const ProgramResult run = run_openwork({"run", scratch / "out", "the", "--quiet", "--device", "cpu"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Pretrain, LearnsItsOwnTokenizer) {
  const ScratchFolder scratch;
  write_documents(scratch);
  nlohmann::json config = small_config();
  config["vocab_size"] = 512;
  std::ofstream(scratch / "small.json") << config.dump();
  std::vector<std::string> arguments = pretrain(scratch, {"--train-tokenizer", "500", "--steps", "4"});
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

TEST(Pretrain, AnotherConfigurationIsAnotherRun) {
  const ScratchFolder scratch;
  write_documents(scratch);
  nlohmann::json config = small_config();
  std::ofstream(scratch / "small.json") << config.dump();
  const auto resumed = [&](const char* steps) {
    return pretrain(scratch, {"--tokenizer", "openwork-8m", "--steps", steps, "--resume"});
  };
  ASSERT_EQ(run_openwork(resumed("1")).exit_code, 0);
  config["n_head"] = 8;  // weights of the same shapes
  std::ofstream(scratch / "small.json") << config.dump(2);
  expect_refusal(resumed("2"), "config is ");
  config["n_head"] = 2;
  std::ofstream(scratch / "small.json") << config.dump(2);
  ASSERT_EQ(run_openwork(resumed("2")).exit_code, 0);
  // States of version 2 did not say it.
  const std::string state_file = scratch / "out/checkpoints/step-00000002/state.json";
  nlohmann::json state = nlohmann::json::parse(read_file(state_file));
  state["version"] = 2;
  EXPECT_EQ(state.at("identity").erase("config"), 1u);
  std::ofstream(state_file) << state.dump();
  std::filesystem::remove(scratch / "out/checkpoints/step-00000002/SHA256SUMS");
  EXPECT_EQ(run_openwork(resumed("3")).exit_code, 0);
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
  refuse({"--steps", "3", "--lora-full", "attention"}, "--lora-full without --lora");
  refuse({"--steps", "3", "--full", "--lora-full", "attention"}, "--lora-full without --lora");
  refuse({"--steps", "3", "--lora", "4", "--lora-full", "q_proj"}, "no module is called 'q_proj'");
  refuse({"--steps", "3", "--lora", "4", "--lora-full", "attention,mlp"}, "no module is left for low ranks");
  refuse({"--steps", "3", "--lora", "4", "--lora-targets", "attention", "--lora-full", "attention"},
         "no module is left for low ranks");
  refuse({"--steps", "3", "--lora-targets", "attention"}, "--lora-targets without --lora");
  refuse({"--steps", "3", "--lora-alpha", "4"}, "--lora-alpha without --lora");
  refuse({"--steps", "3", "--learn-bias", "--no-learn-bias"}, "--learn-bias and --no-learn-bias together");
  refuse({"--steps", "3", "--no-learn-bias", "--bias-lr", "0.1"}, "--bias-lr with --no-learn-bias");
  refuse({"--steps", "3", "--gate-bias-end", "2", "--bias-lr", "0.1"}, "--bias-lr with --gate-bias-end");
  refuse({"--steps", "3", "--idle-lr", "0.1"}, "--idle-lr without --learn-idle");
  refuse({"--steps", "3", "--distill-every", "2"}, "--distill-every without --distill");
  refuse({"--steps", "3", "--distill", "0", "--distill-from", "control"}, "--distill-from with --distill 0");
  refuse({"--steps", "3", "--multiplier-start", "5", "--multiplier-max", "2"},
         "--multiplier-start 5 is not from 0.001 to 2");
  refuse({"--steps", "3", "--multiplier-start", "0.5", "--multiplier-min", "1"},
         "--multiplier-start 0.5 is not from 1 to 100");
  refuse({"--steps", "3", "--warmup", "0.9"}, "overlap");
  refuse({"--steps", "3", "--compact-share", "0.2"}, "--compact-share without --compact");
  refuse({"--steps", "3", "--compact-ramp", "0.2"}, "--compact-ramp without --compact");
  refuse({"--steps", "3", "--compact", "5", "--compact-share", "0.2", "--compact-ramp", "0.3"},
         "a ramp of 0.3 within a share of 0.2");
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
  write_small_model(scratch);
  expect_refusal(small_run(scratch, "refused", {"--held-out", "0.00001"}), "no document is held out");
  EXPECT_FALSE(fs::exists(scratch / "refused")) << "nothing is left of a run that was refused";
  expect_refusal({"sparsify", "openwork-9m", "--data", scratch / "documents.jsonl", "--out", scratch / "o",
                  "--steps", "1"},
                 "openwork-9m");
  expect_refusal({"pretrain", "--config", scratch / "none.json", "--tokenizer", "models/openwork-8m",
                  "--data", scratch / "documents.jsonl", "--out", scratch / "o", "--steps", "1"},
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
  refuse({"--tokenizer", scratch / "none"}, "none");
  refuse({"--tokenizer", "models/openwork-8m", "--data", scratch / "missing.txt"}, "missing.txt");
  EXPECT_FALSE(fs::exists(scratch / "o"));
}

TEST(BadInput, AFolderThatHoldsARunIsNotOverwritten) {
  const ScratchFolder scratch;
  write_documents(scratch);
  fs::create_directories(scratch.path() / "used");
  std::ofstream(scratch / "used/model.safetensors") << "precious";
  expect_refusal(sparsify(scratch, "used", {"--steps", "2"}), "already holds a run or a model");
  EXPECT_EQ(read_file(scratch / "used/model.safetensors"), "precious");
}

TEST(BadInput, UnknownModulesAreRefusedBeforeTheFolderIsMade) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  expect_refusal(small_run(scratch, "out", {"--lora", "2", "--lora-targets", "foo"}), "foo");
  EXPECT_FALSE(fs::exists(scratch.path() / "out"));
}

}  // namespace
}  // namespace openwork
