// sparsify and pretrain as a person runs them, on the CPU: 30 steps, the files they leave, stopping and resuming,
// and what they refuse.
#include <gmock/gmock.h>

#include <csignal>
#include <thread>

#include "cli/command.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The committed text as many small documents, so that some can be held out.
std::string write_documents(const ScratchFolder& scratch) {
  const std::string text = read_file("tests/data/held_out.txt"), path = scratch / "documents.jsonl";
  std::ofstream file(path);
  for (size_t at = 0; at + 400 < text.size(); at += 400) {
    std::string part = text.substr(at, 400);
    for (char& letter : part) letter = static_cast<unsigned char>(letter) < 128 ? letter : ' ';
    file << nlohmann::json{{"text", part}}.dump() << "\n";
  }
  return path;
}

std::vector<std::string> sparsify(const ScratchFolder& scratch, const std::string& out, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"sparsify", "openwork-8m", "--data", scratch / "documents.jsonl", "--out", scratch / out,
                                        "--held-out", "0.1", "--batch-tokens", "512", "--quiet", "--device", "cpu",
                                        "--threads", "1", "--held-out-blocks", "4"};
  if (std::find(more.begin(), more.end(), "--context") == more.end()) {
    arguments.insert(arguments.end(), {"--context", "64"});
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<nlohmann::json> read_lines(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(Sparsify, ThirtyStepsCloseEdgesAndLeaveAModelThatOpens) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const ProgramResult result = run_openwork(
      sparsify(scratch, "out", {"--steps", "30", "--lr", "1e-3", "--tolerance", "2", "--gate-bias", "4", "--learn-bias",
                                "--bias-lr", "0.02", "--control", "--log-every", "5", "--json", scratch / "result.json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("dense control"));
  const auto lines = read_lines(scratch / "out/metrics.jsonl");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_LT(lines.back().at("penalty").get<double>(), 0.9 * lines.front().at("penalty").get<double>());
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "report.md", "report.json", "metrics.jsonl",
                           "base.json", "control/model.safetensors", "control/metrics.jsonl", "checkpoints/latest"}) {
    EXPECT_TRUE(fs::exists(scratch.path() / "out" / name)) << name;
  }
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "result.json"));
  EXPECT_EQ(report.at("sparse").at("training").at("tokens"), 30 * 512);
  EXPECT_EQ(report.at("base").at("kept_edges"), 1.0);
  EXPECT_LT(report.at("sparse").at("kept_edges").get<double>(), 0.3);
  EXPECT_EQ(report.at("base").at("tokens"), report.at("sparse").at("tokens"));
  EXPECT_EQ(report.at("base").at("tokens"), report.at("control").at("tokens"));
  EXPECT_THAT(report.at("command").get<std::string>(), HasSubstr("--learn-bias"));

  // The report measured what the folder holds: eval on the held-out shard says the same.
  const ProgramResult eval = run_openwork({"eval", scratch / "out", "--data", scratch / "out/data/held_out.safetensors", "--context",
                                           "64", "--blocks", "4", "--json", "-", "--quiet", "--device", "cpu", "--threads", "1"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  EXPECT_NEAR(eval.json().at("models").at(0).at("nats_per_token").get<double>(),
              report.at("sparse").at("nats_per_token").get<double>(), 1e-9);
  EXPECT_NEAR(eval.json().at("models").at(0).at("kept_edges").get<double>(), report.at("sparse").at("kept_edges").get<double>(), 1e-12);
}

// Waits until the run has a checkpoint, then sends the signal; the exit code, or 128 + signal where it was killed.
int run_and_signal(const std::vector<std::string>& arguments, const fs::path& awaited, int number) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv = {strdup("openwork")};
    for (const std::string& argument : arguments) argv.push_back(strdup(argument.c_str()));
    argv.push_back(nullptr);
    execv(program_path().c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  while (!fs::exists(awaited) && waitpid(child, &status, WNOHANG) == 0) usleep(1000);
  kill(child, number);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Sparsify, AKilledOrInterruptedRunResumesToTheSameWeights) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const std::vector<std::string> length = {"--steps", "12", "--checkpoint-every", "3", "--lr", "1e-3"};
  ASSERT_EQ(run_openwork(sparsify(scratch, "whole", length)).exit_code, 0);
  const std::string wanted = sha256_of_file(scratch / "whole/model.safetensors");
  std::vector<std::string> resumed = length;
  resumed.push_back("--resume");
  for (const auto& [number, name, code] : {std::tuple{SIGKILL, "killed", 137}, {SIGTERM, "ended", 143}, {SIGINT, "stopped", 130}}) {
    const fs::path awaited = scratch.path() / name / "checkpoints/step-00000003";
    EXPECT_EQ(run_and_signal(sparsify(scratch, name, length), awaited, number), code) << name;
    EXPECT_FALSE(fs::exists(scratch.path() / name / "model.safetensors")) << name;
    const ProgramResult result = run_openwork(sparsify(scratch, name, resumed));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(sha256_of_file(scratch.path() / name / "model.safetensors"), wanted) << name;
  }
}

TEST(Sparsify, AnAdapterOpensWithItsBase) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const ProgramResult result = run_openwork(sparsify(scratch, "adapter", {"--steps", "4", "--lora", "4", "--lora-targets", "attention"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(fs::exists(scratch / "adapter/model.safetensors"));
  const double reported = nlohmann::json::parse(read_file(scratch / "adapter/report.json")).at("sparse").at("nats_per_token");
  for (const std::string& name : {"openwork-8m+" + (scratch / "adapter"), scratch / "adapter"}) {
    const ProgramResult eval = run_openwork({"eval", name, "--data", scratch / "adapter/data/held_out.safetensors", "--context", "64",
                                             "--blocks", "4", "--json", "-", "--quiet", "--device", "cpu", "--threads", "1"});
    ASSERT_EQ(eval.exit_code, 0) << name << "\n" << eval.err;
    EXPECT_NEAR(eval.json().at("models").at(0).at("nats_per_token").get<double>(), reported, 1e-9) << name;
    EXPECT_LT(eval.json().at("models").at(0).at("kept_edges").get<double>(), 1) << name;
  }
}

TEST(Pretrain, LearnsFromNothing) {
  const ScratchFolder scratch;
  const std::string data = write_documents(scratch);
  nlohmann::json config = nlohmann::json::parse(read_file("models/openwork-8m/config.json"));
  config.update({{"n_layer", 2}, {"n_head", 2}, {"n_embd", 32}});
  std::ofstream(scratch / "small.json") << config.dump();
  const ProgramResult result =
      run_openwork({"pretrain", "--config", scratch / "small.json", "--tokenizer", "models/openwork-8m/tokenizer.json", "--data", data,
                    "--held-out", "0.1", "--out", scratch / "out", "--steps", "40", "--lr", "1e-2", "--context", "64", "--batch-tokens",
                    "512", "--quiet", "--device", "cpu", "--threads", "1", "--held-out-blocks", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = read_lines(scratch / "out/metrics.jsonl");
  EXPECT_GT(lines.front().at("loss").get<double>(), 7.5);
  EXPECT_LT(lines.back().at("loss").get<double>(), 7);
  const ProgramResult run = run_openwork({"run", scratch / "out", "the", "--quiet", "--device", "cpu"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
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
  refuse({"--steps", "3", "--context", "100"}, "--batch-tokens 512 is not a multiple of --context 100");
  refuse({"--steps", "3", "--accumulate", "3"}, "cannot be cut into 3 passes");
  refuse({"--steps", "3", "--gate", "hope"}, "hope");
  refuse({"--steps", "3", "--full", "--lora", "4"}, "--full and --lora together");
  refuse({"--steps", "3", "--lora", "4", "--lora-targets", "q_proj"}, "no module is called 'q_proj'");
  refuse({"--steps", "3", "--warmup", "0.9"}, "overlap");
  refuse({"--steps", "3", "--target-loss", "3", "--tolerance", "0.1"}, "--tolerance");
  refuse({"--steps", "3", "--data", scratch / "missing.txt"}, "missing.txt");
  EXPECT_FALSE(fs::exists(scratch / "refused/model.safetensors"));
  expect_refusal({"sparsify", "openwork-9m", "--data", "x", "--out", scratch / "o", "--steps", "1"}, "openwork-9m");
  expect_refusal({"pretrain", "--config", scratch / "none.json", "--tokenizer", "models/openwork-8m", "--data", "x", "--out",
                  scratch / "o", "--steps", "1"}, "none.json");
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
