// sparsify as a person runs it, on the CPU: 30 steps, the files they leave, what it draws and says, and adapters.
#include <gmock/gmock.h>

#include "cli/terminal.h"
#include "cli/training_command.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

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

TEST(Sparsify, ItsProgressTellsHowItGoes) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const std::string text =
      run_on_terminal(small_run(scratch, "out", {"--steps", "60", "--log-every", "1"}), 240);
  EXPECT_THAT(text,
              testing::ContainsRegex("sparsify .[#-]+. [0-9]+ / 60 steps .[0-9]+ %., [0-9]+ s left, loss "
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

TEST(Sparsify, AttentionInFullAndTheRestLowRankIsAnAdapterToo) {
  const ScratchFolder scratch;
  write_documents(scratch);
  const std::vector<std::string> options = {"--steps", "4", "--lora", "4", "--lora-full", "attention"};
  const ProgramResult result = run_openwork(sparsify(scratch, "mixed", options));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "mixed/report.json"));
  EXPECT_EQ(report.at("options").at("lora_full"), nlohmann::json({"attention"}));
  EXPECT_EQ(report.at("options").at("learning_rate"), 3e-4);
  const nlohmann::json config = nlohmann::json::parse(read_file(scratch / "mixed/adapter_config.json"));
  EXPECT_EQ(config.at("modules_to_save"), nlohmann::json({"attn.c_proj", "c_attn"}));
  EXPECT_EQ(config.at("target_modules"), nlohmann::json({"c_fc", "mlp.c_proj"}));

  const std::string pair = "openwork-8m+" + (scratch / "mixed"),
                    shard = scratch / "mixed/data/held_out.safetensors";
  const auto loss_of = [&](const std::string& name) {
    const ProgramResult eval =
        run_openwork({"eval", name, "--data", shard, "--context", "64", "--blocks", "4", "--json", "-",
                      "--quiet", "--device", "cpu", "--threads", "1"});
    EXPECT_EQ(eval.exit_code, 0) << name << "\n" << eval.err;
    return eval.json().at("models").at(0).at("nats_per_token").get<double>();
  };
  const double reported = report.at("sparse").at("nats_per_token");
  EXPECT_NEAR(loss_of(pair), reported, 1e-9);
  EXPECT_NEAR(loss_of(scratch / "mixed"), reported, 1e-9);
  // Pruned, it is a whole model without its base.
  const ProgramResult pruned =
      run_openwork({"prune", pair, "--data", shard, "--context", "64", "--blocks", "4", "--out",
                    scratch / "pruned", "--quiet", "--device", "cpu", "--threads", "1"});
  ASSERT_EQ(pruned.exit_code, 0) << pruned.err;
  EXPECT_NEAR(loss_of(scratch / "pruned"), reported, 1e-6);

  // It is part of what a run is: a state of other modules is another run's, one without them as it always was.
  expect_refusal(
      sparsify(scratch, "mixed",
               {"--steps", "4", "--lora", "4", "--lora-full", "c_attn", "--lr", "3e-4", "--resume"}),
      "lora_full is [\"c_attn\"], but the run to resume has [\"attention\"]");
  expect_refusal(sparsify(scratch, "mixed", {"--steps", "4", "--lora", "4", "--lr", "3e-4", "--resume"}),
                 "lora_full is null");
}

TEST(Sparsify, SaysWhatItWouldTakeAndDoesNothingElse) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const std::vector<std::string> options = {"--lora", "4", "--lora-full", "attention"};
  std::vector<std::string> asked = options;
  asked.insert(asked.end(), {"--memory", "--json", "-"});
  const ProgramResult said = run_openwork(small_run(scratch, "out", asked));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_FALSE(fs::exists(scratch.path() / "out"));
  ASSERT_EQ(run_openwork(small_run(scratch, "out", options)).exit_code, 0);
  const nlohmann::json report = nlohmann::json::parse(read_file(scratch / "out/report.json")),
                       predicted = report.at("sparse").at("training").at("memory").at("predicted");
  for (const char* part : {"weights", "gradients", "moments", "activations", "closing"})
    EXPECT_EQ(said.json().at("memory").at(part), predicted.at(part)) << part;
  EXPECT_EQ(said.json().at("protocol").at("model"), report.at("protocol").at("model"));
  EXPECT_EQ(said.json().at("protocol").at("data").at(0).at("file"), "documents.jsonl");
  // Of a GPU that is not here, too: less than all weights take.
  const auto on_gpu = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--memory", "--device", "cuda", "--json", "-"});
    return run_openwork(small_run(scratch, "gpu", more)).json().at("memory");
  };
  EXPECT_LT(on_gpu(options).at("moments"), on_gpu({}).at("moments"));
  EXPECT_GT(on_gpu(options).at("moments"), on_gpu({"--lora", "4"}).at("moments"));
  EXPECT_FALSE(fs::exists(scratch.path() / "gpu"));
}

TEST(Sparsify, AStartOfTheMultiplierMovesBoundsThatWereNotGiven) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const auto options = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--memory", "--json", "-"});
    return run_openwork(small_run(scratch, "out", more)).json().at("options");
  };
  EXPECT_EQ(options({"--multiplier-start", "500"}).at("multiplier_start"), 500);
  EXPECT_EQ(options({"--multiplier-start", "500"}).at("multiplier_highest"), 500);
  EXPECT_EQ(options({"--multiplier-start", "1e-5"}).at("multiplier_start"), 1e-5);
  EXPECT_EQ(options({"--multiplier-min", "2"}).at("multiplier_start"), 2) << "the default makes room";
}

}  // namespace
}  // namespace openwork
