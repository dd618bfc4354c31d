// The verbs on models that are always here.
#include "cli/command.h"

#include <gmock/gmock.h>

#include <cmath>

#include "io/safetensors.h"
#include "model/golden.h"

namespace openwork {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Program, SaysItsVersionAndItsVerbs) {
  EXPECT_THAT(run_openwork({"--version"}).out, HasSubstr("openwork 0."));
  const ProgramResult help = run_openwork({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* verb : {"models", "fetch", "inspect", "run", "tokenize", "eval", "bench"}) {
    EXPECT_THAT(help.out, HasSubstr(verb));
    const ProgramResult verb_help = run_openwork({verb, "--help"});
    EXPECT_EQ(verb_help.exit_code, 0) << verb;
    EXPECT_THAT(verb_help.out, HasSubstr("Examples:")) << verb;
  }
}

TEST(Models, ListsTheBuiltInOne) {
  const ProgramResult result = run_openwork({"models", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.json()["models"].dump(), HasSubstr("openwork-8m"));
}

TEST(Inspect, DescribesTheBuiltInModel) {
  const ProgramResult result = run_openwork({"inspect", "openwork-8m", "--tensors", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = result.json();
  EXPECT_EQ(json["config"]["architecture"], "gpt2");
  EXPECT_EQ(json["config"]["heads"], 8);
  EXPECT_EQ(json["config"]["gate"], "none");
  EXPECT_EQ(json["tensors"].size(), 100u);
  EXPECT_EQ(json["protocol"]["model"]["sha256"].get<std::string>().size(), 64u);
}

TEST(Inspect, SaysWhichGatesAModelHasAndInWhatRange) {
  const ProgramResult result = run_openwork({"inspect", "tests/data/llama_idle", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json config = result.json()["config"];
  EXPECT_EQ(config["gate"], "idle");
  EXPECT_EQ(config["gate_bias"], nlohmann::json({1.5, 3.5}));
  EXPECT_EQ(config["gate_idle"], nlohmann::json({"-inf", "inf"}));
}

TEST(Inspect, ExportsAQuantisedFileAsFloats) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_openwork({"inspect", "tests/data/gguf_quants.gguf", "--export", scratch / "out.safetensors"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto exported = read_golden(scratch / "out.safetensors"),
             wanted = read_golden("tests/data/gguf_quants.safetensors");
  EXPECT_EQ(exported.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) expect_close(exported.at(name), tensor, name, 1e-7, 1e-6);
}

TEST(Bench, TimesAttentionAtAShapeOfYourOwn) {
  const ProgramResult result = run_openwork({"bench", "attention", "--shape", "1,2,9,7", "--repeats", "1",
                                             "--device", "cpu", "--threads", "1", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json rows = result.json()["rows"];
  EXPECT_EQ(rows.size(), 22u);  // dense; plain, openwork and z alone of three gates; 1 % open in two ways
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row["shape"], "B1 H2 T9 d7");
    EXPECT_GT(row["forward_ms"].get<double>(), 0) << row["way"];
    EXPECT_LT(row["error"].get<double>(), 1e-5) << row["way"];
  }
}

TEST(Bench, TokenizesWithoutFilesOfTheRepository) {
  const ScratchFolder scratch;
  const std::string program = fs::absolute(program_path()).string();
  ASSERT_EQ(std::system(("cd '" + scratch.path().string() + "' && '" + program +
                         "' bench tokenize --repeats 1 --json out.json >log 2>&1")
                            .c_str()),
            0)
      << read_file(scratch / "log");
  const nlohmann::json result = nlohmann::json::parse(read_file(scratch / "out.json"));
  EXPECT_EQ(result["protocol"]["data"], "sample prompts");
  EXPECT_GT(result["bytes"], 900'000);
}

TEST(Run, GivesTheReferencesIdsAndLogits) {
  for (const nlohmann::json& prompt : nlohmann::json::parse(read_file("tests/data/base8m_prompts.json"))) {
    const ProgramResult result =
        run_openwork({"run", "openwork-8m", prompt["text"], "--top", "5", "--json", "-"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json shown = result.json()["prompts"][0];
    EXPECT_EQ(shown["ids"], prompt["input_ids"]);
    for (size_t n = 0; n < 5; ++n) {
      EXPECT_EQ(shown["top"][n]["token"], prompt["top"][n][0]);
      EXPECT_EQ(shown["top"][n]["id"], prompt["top"][n][1]);
      EXPECT_NEAR(shown["top"][n]["logit"].get<double>(), prompt["top"][n][2].get<double>(), 2e-3);
    }
  }
}

TEST(Run, SavesEveryTensorOfTheGoldenFile) {
  const ScratchFolder scratch;
  for (const char* fixture : {"gpt2", "gpt_neox", "llama", "olmo", "olmo2"}) {
    const fs::path folder = fs::path("tests/data") / fixture;
    const auto golden = read_golden(folder / "golden.safetensors");
    std::ofstream(scratch / "ids.json") << nlohmann::json([&] {
      std::vector<std::vector<int64_t>> rows;
      const at::Tensor ids = golden.at("input_ids");
      for (int64_t b = 0; b < ids.size(0); ++b) {
        rows.emplace_back(ids[b].data_ptr<int64_t>(), ids[b].data_ptr<int64_t>() + ids.size(1));
      }
      return rows;
    }());
    const ProgramResult result =
        run_openwork({"run", folder.string(), "--tokens-file", scratch / "ids.json", "--save",
                      scratch / "pass.safetensors", "--what", "logits,attention,hidden,loss,grad", "--cache",
                      "blocks.1.attn.hook_z,hook_embed"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto saved = read_golden(scratch / "pass.safetensors");
    for (const auto& [name, tensor] : golden) {
      ASSERT_TRUE(saved.contains(name)) << fixture << " " << name;
      expect_close(saved.at(name), tensor, std::string(fixture) + " " + name);
    }
    EXPECT_EQ(saved.at("blocks.1.attn.hook_z").sizes(), at::IntArrayRef({2, 23, 4, 8}));
    EXPECT_EQ(saved.size(), golden.size() + 2) << fixture;
  }
}

TEST(Run, GeneratesTheSameTextForTheSameSeed) {
  const std::vector<std::string> command = {
      "run", "openwork-8m", "Once upon a time", "--generate", "12", "--temperature", "0.9", "--seed", "7"};
  const ProgramResult first = run_openwork(command), second = run_openwork(command);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, second.out);
  std::vector<std::string> other = command;
  other.back() = "8";
  EXPECT_NE(first.out, run_openwork(other).out);
}

TEST(Run, TakesABeginningTokenWhenAsked) {
  const ProgramResult with = run_openwork({"run", "openwork-8m", "Hello", "--bos", "yes", "--json", "-"});
  const ProgramResult without = run_openwork({"run", "openwork-8m", "Hello", "--json", "-"});
  EXPECT_EQ(with.json()["prompts"][0]["ids"].size(), without.json()["prompts"][0]["ids"].size() + 1);
  EXPECT_EQ(with.json()["prompts"][0]["ids"][0], 0);
  EXPECT_EQ(with.json()["protocol"]["bos"], "yes");
}

TEST(Run, OfAWeightsFileTakesTheTokenizerBesideIt) {
  const auto table = [](const std::string& model) {
    return run_openwork({"run", model, "The cat", "--top", "3"}).out;
  };
  EXPECT_NE(table("models/openwork-8m"), "");
  EXPECT_EQ(table("models/openwork-8m/model.safetensors"), table("models/openwork-8m"));
}

TEST(Run, NeedsNoTokenizerWithTokens) {
  const ProgramResult result =
      run_openwork({"run", "tests/data/llama", "--tokens", "1,2,3", "--generate", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(Run, SaysWhichPromptATableIsOf) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "prompts.txt") << "\xEF\xBB\xBF"
                                         << "a b c\nThe cat\n";  // as some editors save it
  const ProgramResult run = run_openwork({"run", "openwork-8m", "--prompts", scratch / "prompts.txt"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("prompt 1: “a b c” (3 tokens)\n"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("prompt 2: “The cat” (2 tokens)\n"), std::string::npos) << run.out;
  std::ofstream(scratch / "ids.json") << "[[1, 2], [3, 4, 5]]";
  const ProgramResult ids =
      run_openwork({"run", "tests/data/gpt2", "--tokens-file", scratch / "ids.json", "--top", "1"});
  EXPECT_NE(ids.out.find("prompt 2: 3 tokens\n"), std::string::npos) << ids.out << ids.err;
}

TEST(Run, OpensThePublishedSparseGpt2) {
  const ScratchFolder scratch;
  const auto golden = read_golden("tests/data/sparse_gpt2_published/golden.safetensors");
  const at::Tensor ids = golden.at("input_ids");
  std::vector<std::vector<int64_t>> rows;
  for (int64_t b = 0; b < ids.size(0); ++b)
    rows.emplace_back(ids[b].data_ptr<int64_t>(), ids[b].data_ptr<int64_t>() + ids.size(1));
  std::ofstream(scratch / "ids.json") << nlohmann::json(rows);
  const ProgramResult result =
      run_openwork({"run", "tests/data/sparse_gpt2_published", "--tokens-file", scratch / "ids.json",
                    "--save", scratch / "pass.safetensors", "--what", "logits,attention,loss"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto saved = read_golden(scratch / "pass.safetensors");
  for (const auto& [name, tensor] : golden) expect_close(saved.at(name), tensor, name);
}

TEST(Tokenize, GoesThereAndBack) {
  const ProgramResult there = run_openwork({"tokenize", "openwork-8m", "Hello naïve 東京\n", "--json", "-"});
  ASSERT_EQ(there.exit_code, 0) << there.err;
  std::string ids;
  const nlohmann::json there_json = there.json();
  for (const auto& id : there_json["ids"]) ids += (ids.empty() ? "" : ",") + id.dump();
  EXPECT_EQ(run_openwork({"tokenize", "openwork-8m", "--ids", ids}).out, "Hello naïve 東京\n\n");
  const ScratchFolder scratch;
  std::ofstream(scratch / "text") << "Hello naïve 東京\n";
  EXPECT_EQ(
      run_openwork({"tokenize", "openwork-8m", "--file", scratch / "text", "--json", "-"}).json()["ids"],
      there.json()["ids"]);
  EXPECT_EQ(
      run_openwork({"tokenize", "models/openwork-8m/tokenizer.json", "Hello naïve 東京\n", "--json", "-"})
          .json()["ids"],
      there.json()["ids"]);
}

TEST(Eval, GivesLossIntervalAndProtocol) {
  const ProgramResult result = run_openwork(
      {"eval", "openwork-8m", "--data", "tests/data/held_out.txt", "--context", "128", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json model = result.json()["models"][0];
  EXPECT_GT(model["nats_per_token"].get<double>(), 2.5);
  EXPECT_LT(model["nats_per_token"].get<double>(), 5);
  EXPECT_LT(model["interval"][0].get<double>(), model["nats_per_token"].get<double>());
  EXPECT_GT(model["interval"][1].get<double>(), model["nats_per_token"].get<double>());
  EXPECT_EQ(model["kept_edges"], 1.0);
  EXPECT_EQ(model["open_heads"], 64);
  EXPECT_EQ(model["heads"].size(), 8u);
  EXPECT_GT(model["bits_per_byte"].get<double>(), 0.8);
  EXPECT_EQ(result.json()["protocol"]["data"][0]["file"], "held_out.txt");
}

// Documents of 40 tokens below 97, as a shard; with how many bytes each has, or without.
std::string write_shard(const ScratchFolder& scratch, const std::string& name, bool with_bytes) {
  std::vector<int32_t> tokens;
  std::vector<int64_t> starts, bytes;
  for (int32_t n = 0; n < 400; ++n) {
    if (n % 40 == 0) starts.push_back(n), bytes.push_back(117);
    tokens.push_back(n % 40 == 39 ? 0 : 1 + (n * 31) % 96);
  }
  std::vector<OutputTensor> tensors = {{"tokens", DType::kI32, {400}, bytes_of(tokens)},
                                       {"document_starts", DType::kI64, {10}, bytes_of(starts)}};
  if (with_bytes) tensors.push_back({"document_bytes", DType::kI64, {10}, bytes_of(bytes)});
  write_safetensors(scratch / name, tensors,
                    {{"format", "openwork.tokens"}, {"version", "1"}, {"end_of_text", "0"}});
  return scratch / name;
}

TEST(Eval, OfTokenShardsNeedsNoTokenizer) {
  const ScratchFolder scratch;
  const std::string shard = write_shard(scratch, "tokens", true), bare = write_shard(scratch, "bare", false);
  const auto evaluate = [](const std::string& data) {
    const ProgramResult result = run_openwork(
        {"eval", "tests/data/gpt2", "--data", data, "--context", "32", "--threads", "1", "--json", "-"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json()["models"][0];
  };
  const nlohmann::json model = evaluate(shard);
  EXPECT_EQ(model["documents"], 10);
  EXPECT_NEAR(model["bits_per_byte"].get<double>(),
              model["nats_per_token"].get<double>() / std::log(2.0) * 40 / 117, 0.05);
  EXPECT_TRUE(model["prompt_kept_edges"].is_null()) << "there are no prompts without a tokenizer";
  EXPECT_TRUE(evaluate(bare)["bits_per_byte"].is_null());
  EXPECT_EQ(evaluate(bare)["nats_per_token"], model["nats_per_token"]);
  expect_refusal({"eval", "tests/data/gpt2", "--data", shard, "tests/data/held_out.txt"},
                 "the model has no tokenizer.json");

  const ProgramResult pruned =
      run_openwork({"prune", "tests/data/gpt2", "--data", shard, "--context", "32", "--by", "effect",
                    "--keep", "6", "--out", scratch / "pruned", "--json", "-"});
  ASSERT_EQ(pruned.exit_code, 0) << pruned.err;
  EXPECT_EQ(pruned.json()["before"]["nats_per_token"], model["nats_per_token"]);
  EXPECT_EQ(pruned.json()["heads"][1], 6);
}

TEST(Eval, SaysWhatIsKeptWhereTextsAreShort) {
  const std::vector<std::string> arguments = {
      "eval",      "openwork-8m", "openwork-8m-sparse", "--data", "tests/data/held_out.txt",
      "--context", "128",         "--blocks",           "4"};
  std::vector<std::string> with_json = arguments;
  with_json.insert(with_json.end(), {"--json", "-"});
  const ProgramResult result = run_openwork(with_json);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json dense = result.json()["models"][0], sparse = result.json()["models"][1];
  for (const char* rows : {"1-8", "9-64", "65-256"}) {
    EXPECT_EQ(dense["kept_edges_by_row"][rows], 1.0);
    EXPECT_GT(sparse["kept_edges_by_row"][rows].get<double>(), 0) << rows;
    EXPECT_LT(sparse["kept_edges_by_row"][rows].get<double>(), 1) << rows;
  }
  EXPECT_TRUE(sparse["kept_edges_by_row"]["257-"].is_null());
  EXPECT_EQ(dense["prompt_kept_edges"], 1.0);
  EXPECT_EQ(dense["prompt_open_heads"], 64.0);
  EXPECT_LT(sparse["prompt_kept_edges"].get<double>(), 1);
  EXPECT_EQ(result.json()["protocol"]["prompts"]["prompts"], "sample");
  EXPECT_THAT(
      run_openwork(arguments).out,
      HasSubstr("  kept: rows 1-8 100 %, 9-64 100 %, 65-256 100 %; a prompt 100 %, 64.0 of 64 heads"));
}

TEST(Eval, GivesTheKnownHeldOutLoss) {
  const fs::path data = "../shared/corpus/valid.txt.xz";
  if (!fs::exists(data)) GTEST_SKIP() << "the validation text is not here (" << data.string() << ")";
  const ProgramResult result = run_openwork(
      {"eval", "openwork-8m", "--data", data.string(), "--context", "512", "--blocks", "40", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // Of the run whose 400 blocks have the loss known from elsewhere, 3.2460, the first 40.
  EXPECT_NEAR(result.json()["models"][0]["nats_per_token"].get<double>(), 3.2702, 0.001);
}

}  // namespace
}  // namespace openwork
