// openwork prune, and its folders under every verb; openwork bench infer.
#include <cmath>

#include "cli/command.h"
#include "io/test_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

const std::string kPruneText = "tests/data/held_out.txt";

ProgramResult run_prune(const std::string& model, const std::string& out, std::vector<std::string> more) {
  std::vector<std::string> all = {"prune", model,   "--data", kPruneText, "--context",
                                  "256",   "--out", out,      "--json",   "-"};
  if (std::find(more.begin(), more.end(), "--blocks") == more.end())
    more.insert(more.end(), {"--blocks", "4"});
  all.insert(all.end(), more.begin(), more.end());
  return run_openwork(all);
}

nlohmann::json evaluate_pruned(const std::string& model) {
  const ProgramResult result = run_openwork(
      {"eval", model, "--data", kPruneText, "--context", "256", "--blocks", "4", "--json", "-", "--quiet"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.json()["models"][0];
}

TEST(Prune, HeadsThatNeverOpenLeaveTheTextsLogitsAsTheyWere) {
  const ScratchFolder scratch;
  const std::string out = scratch / "pruned";
  const ProgramResult result = run_prune("openwork-8m-sparse", out, {});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json record = result.json();
  EXPECT_LE(record["largest_logit_difference"].get<double>(), 1e-5);
  EXPECT_NEAR(record["before"]["nats_per_token"].get<double>(),
              record["after"]["nats_per_token"].get<double>(), 1e-6);
  EXPECT_GT(record["removed"].size(), 0u);
  EXPECT_LT(record["parameters"][1], record["parameters"][0]);
  EXPECT_EQ(record["removed"].size(), record["before"]["closed_heads"].get<size_t>());
  EXPECT_TRUE(record.contains("protocol"));

  // In the original shape, heads that are gone 0.
  const nlohmann::json source = evaluate_pruned("openwork-8m-sparse"), pruned = evaluate_pruned(out);
  EXPECT_EQ(pruned["heads"], source["heads"]);
  EXPECT_EQ(pruned["kept_edges"], source["kept_edges"]);
  const nlohmann::json config = nlohmann::json::parse(read_file(out + "/config.json"));
  EXPECT_EQ(config["kept_heads"], record["kept_heads"]);
  EXPECT_EQ(config["original_heads"], config["n_head"]);
}

TEST(Prune, EveryVerbOpensTheFolderAndKeepsTheNamesOfHeads) {
  const ScratchFolder scratch;
  const std::string out = scratch / "pruned";
  ASSERT_EQ(run_prune("openwork-8m-sparse", out, {"--keep", "20"}).exit_code, 0);
  const auto run = [&](const std::vector<std::string>& arguments) {
    const ProgramResult result = run_openwork(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments[0] << "\n" << result.err;
    return result;
  };
  const nlohmann::json shown = run({"inspect", out, "--json", "-"}).json();
  EXPECT_EQ(shown["config"]["kept_heads"].size(), shown["config"]["layers"].get<size_t>());
  run({"run", out, "The city of Paris is the capital of", "--generate", "5"});
  const nlohmann::json effects =
      run({"ablate", out, "--task", "copy", "--prompts", "4", "--json", "-"}).json();
  const nlohmann::json kept = nlohmann::json::parse(read_file(out + "/config.json"))["kept_heads"];
  for (size_t layer = 0; layer < kept.size(); ++layer) {
    ASSERT_EQ(effects["effects"][layer].size(), shown["config"]["heads"].get<size_t>());
    for (size_t head = 0; head < effects["effects"][layer].size(); ++head) {
      if (std::find(kept[layer].begin(), kept[layer].end(), head) == kept[layer].end()) {
        EXPECT_EQ(effects["effects"][layer][head], 0.0) << "L" << layer << "H" << head;
      }
    }
  }
  run({"heads", out, "The cat sat on the mat", "--out", scratch / "heads.svg"});
  run({"stats", out, "The cat sat on the mat. The cat sat", "--json", scratch / "stats.json"});
  run({"circuit", out, "--task", "copy", "--prompts", "4", "--json", scratch / "circuit.json"});
  run({"circuit", out, "--task", "copy", "--prompts", "2", "--level", "graph-edge", "--method", "eap",
       "--json", scratch / "edges.json"});
  // Its source's transcoders came along, and serve it.
  run({"trace", out, "The city of Paris is the capital of", "--out", scratch / "trace.svg"});
  run({"compare", "openwork-8m", out, "--out", scratch / "page", "--task", "copy", "--task-prompts", "4",
       "--no-interactions", "--capability", "0", "--generate", "0"});
}

TEST(Prune, ADenseModelByEffectKeepsItsBestHeads) {
  const ScratchFolder scratch;
  const std::string first = scratch / "first", second = scratch / "second";
  const ProgramResult result =
      run_prune("openwork-8m", first, {"--by", "effect", "--keep", "12", "--blocks", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json record = result.json();
  EXPECT_EQ(record["heads"][1], 12);
  EXPECT_EQ(record["effect_of"], "loss");
  double lowest_kept = INFINITY, highest_gone = -INFINITY;
  for (size_t layer = 0; layer < record["worth"].size(); ++layer) {
    const auto& kept = record["kept_heads"][layer];
    for (size_t head = 0; head < record["worth"][layer].size(); ++head) {
      const double worth = record["worth"][layer][head];
      const bool stays = std::find(kept.begin(), kept.end(), head) != kept.end();
      stays ? lowest_kept = std::min(lowest_kept, worth) : highest_gone = std::max(highest_gone, worth);
    }
  }
  EXPECT_GE(lowest_kept, highest_gone);
  const nlohmann::json pruned = evaluate_pruned(first);
  EXPECT_EQ(pruned["open_heads"], 12);
  EXPECT_LT(pruned["kept_edges"].get<double>(), 0.5);
  const ProgramResult stats =
      run_openwork({"stats", first, "The cat sat on the mat", "--json", "-", "--quiet"});
  ASSERT_EQ(stats.exit_code, 0) << stats.err;
  const nlohmann::json heads = stats.json()["models"][0]["heads"];
  double density = 0;  // a head that is there keeps all its edges, one that is gone none
  for (const nlohmann::json& head : heads) density += head["density"]["mean"].get<double>();
  EXPECT_EQ(density, 12);

  // A second pruning goes on from the first, and still knows the first source.
  const ProgramResult again = run_prune(first, second, {"--by", "effect", "--keep", "3", "--blocks", "1"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.json()["heads"], nlohmann::json({12, 3}));
  const auto config = [](const std::string& folder) {
    return nlohmann::json::parse(read_file(folder + "/config.json"));
  };
  EXPECT_EQ(config(second)["source_sha256"], config(first)["source_sha256"]);
  EXPECT_EQ(evaluate_pruned(second)["open_heads"], 3);  // of which most layers have none
}

TEST(Prune, RefusesWhatItCannotDoInOneLine) {
  const ScratchFolder scratch;
  const std::string out = scratch / "not/there/out";
  const auto refused = [&](const std::string& model, std::vector<std::string> more,
                           const std::string& message) {
    std::vector<std::string> all = {"prune", model,      "--data", kPruneText, "--context",
                                    "64",    "--blocks", "1",      "--out",    out};
    all.insert(all.end(), more.begin(), more.end());
    expect_refusal(all, message);
    EXPECT_FALSE(fs::exists(scratch / "not")) << "nor the folders it would have stood in";
  };
  refused("openwork-8m", {}, "use --by effect");
  refused("openwork-8m", {"--by", "effect", "--keep", "4", "--task", "juggling"}, "no task 'juggling'");
  refused("openwork-8m", {"--by", "effect"}, "add --below");
  refused("openwork-8m-sparse", {"--below", "1.5"}, "a level of 1.5");
  refused("openwork-8m-sparse", {"--below", "-0.1"}, "a level of -0.1");
  refused("openwork-8m-sparse", {"--keep", "100000"}, "heads to keep");
  refused("openwork-8m-sparse", {"--keep", "4", "--below", "0.1"}, "give one of them");
  refused("openwork-8m-sparse", {"--task", "copy"}, "add --by effect");
  std::ofstream(scratch / "full.txt") << "taken";
  expect_refusal({"prune", "openwork-8m-sparse", "--data", kPruneText, "--out", scratch.path().string()},
                 "not empty");
}

TEST(Prune, ACompactDifferenceBecomesAFullFolder) {
  if (run_openwork({"inspect", "smollm2-135m"}).exit_code != 0)
    GTEST_SKIP() << "smollm2-135m is not here: run `openwork fetch smollm2-135m`";
  const ScratchFolder scratch;
  const std::string out = scratch / "pruned";
  const ProgramResult result = run_prune("smollm2-135m-sparse", out, {"--blocks", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json record = result.json();
  // Logits of some tens, sums of 576 numbers in another order: float32 rounding, a few units of 1e-6 of them.
  EXPECT_LE(record["largest_logit_difference"].get<double>(), 1e-4);
  EXPECT_NEAR(record["before"]["nats_per_token"].get<double>(),
              record["after"]["nats_per_token"].get<double>(), 1e-5);
  EXPECT_GT(record["removed"].size(), 20u);
  EXPECT_EQ(evaluate_pruned(out)["heads"].size(), 30u);
}

// A small GGUF model whose tokenizer, 61 tokens written token0 to token60, begins texts with token0.
void write_gguf_model(const std::string& path) {
  const auto text = [](const std::string& value) { return pack<uint64_t>(value.size()) + value; };
  const auto pair = [&](const std::string& key, uint32_t type, const std::string& value) {
    return text(key) + pack(type) + value;
  };
  constexpr uint32_t kUint32 = 4, kText = 8, kList = 9, kTokens = 61, kUserDefined = 4;
  std::string types = pack(kUint32) + pack<uint64_t>(kTokens);
  for (uint32_t id = 0; id < kTokens; ++id) types += pack(kUserDefined);
  std::string pairs =
      pair("tokenizer.ggml.pre", kText, text("llama-bpe")) +
      pair("tokenizer.ggml.merges", kList, pack(kText) + pack<uint64_t>(0)) +
      pair("tokenizer.ggml.token_type", kList, types) +
      pair("tokenizer.ggml.eot_token_id", kUint32, pack<uint32_t>(5)) +
      pair("tokenizer.chat_template", kText, text("{{ bos_token }}token3{{ messages[0].content }}"));
  const size_t padding = 32 - (pairs.size() + pair("p", kText, text("")).size()) % 32;  // of the tensors
  pairs += pair("p", kText, text(std::string(padding, '.')));
  std::string file = read_file("tests/data/variants/gguf_llama_biases/model.gguf");
  file[16] = static_cast<char>(file[16] + 6);  // how many pairs there are
  std::ofstream(path, std::ios::binary) << file.insert(24, pairs);
}

TEST(Run, OfAFolderWithOneGgufFileAndAConfigurationTakesTheFilesTokenizer) {
  const ScratchFolder scratch;
  write_gguf_model(scratch / "model.gguf");
  std::ofstream(scratch / "config.json") << R"({"model_type": "llama"})";
  const ProgramResult result = run_openwork({"run", scratch.path().string(), "token4", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json()["prompts"][0]["ids"], nlohmann::json({0, 4}));
}

TEST(Prune, TheTokenizerOfAGgufFileBeginsAndEndsTextsAsItDid) {
  const ScratchFolder scratch;
  write_gguf_model(scratch / "model.gguf");
  std::ofstream data(scratch / "text.txt");
  for (int n = 0; n < 40; ++n) data << "token7token8";
  data.close();
  const auto prune = [&](const std::string& model, const std::string& out) {
    const ProgramResult result = run_openwork({"prune", model, "--data", scratch / "text.txt", "--context",
                                               "16", "--by", "effect", "--keep", "3", "--out", out});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  };
  const auto ids_of = [](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"run", model, "token4", "--json", "-"};
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult result = run_openwork(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? result.json()["prompts"][0]["ids"] : nlohmann::json();
  };
  const std::vector<std::string> chat = {"--chat", "--generate", "1"};
  prune(scratch / "model.gguf", scratch / "first");
  for (const std::string& model : {scratch / "model.gguf", scratch / "first"}) {
    EXPECT_EQ(ids_of(model, {}), nlohmann::json({0, 4})) << model;
    EXPECT_EQ(ids_of(model, chat), nlohmann::json({0, 3, 4})) << model;
  }
  EXPECT_EQ(nlohmann::json::parse(read_file(scratch / "first/generation_config.json"))["eos_token_id"],
            nlohmann::json({0, 5}));

  // From a folder: its chat template and end tokens come along.
  std::ofstream(scratch / "first/chat_template.jinja") << "token9";
  prune(scratch / "first", scratch / "second");
  EXPECT_EQ(ids_of(scratch / "second", chat), nlohmann::json({9}));
  EXPECT_EQ(read_file(scratch / "second/generation_config.json"),
            read_file(scratch / "first/generation_config.json"));
}

TEST(BenchInfer, GivesRatiosToTheDenseModel) {
  const ProgramResult result =
      run_openwork({"bench", "infer", "--repeats", "1", "--device", "cpu", "--threads", "1", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json rows = result.json()["rows"];
  ASSERT_GE(rows.size(), 9u);
  for (const nlohmann::json& row : rows) {
    EXPECT_GT(row["tokens_per_second"].get<double>(), 0);
    if (row["model"] == "dense") {
      EXPECT_EQ(row["ratio_to_dense"], 1.0);
    }
  }
  EXPECT_LT(result.json()["models"][2]["heads"], result.json()["models"][1]["heads"]);
}

}  // namespace
}  // namespace openwork
