// ablate and circuit as a person calls them: the fixtures' numbers, the documented JSON, one-line refusals.
#include <cmath>

#include "cli/command.h"

namespace openwork {
namespace {

using nlohmann::json;

// The copy fixture's prompts as a user's task file.
std::string write_copy_task(const ScratchFolder& scratch, size_t prompts) {
  const json fixture = json::parse(read_file("tests/data/copy_heads.json"));
  const std::string path = scratch / "copy.jsonl";
  std::ofstream file(path);
  for (size_t p = 0; p < prompts; ++p) {
    const json &clean = fixture["clean"][p], &corrupt = fixture["corrupt"][p];
    json line = {{"clean", clean}, {"corrupt", corrupt}};
    for (size_t i = 25; i < 50; ++i) {
      line["at"].push_back(i);
      line["answer"].push_back(clean[i + 1]);
      line["wrong"].push_back(corrupt[i - 24]);
    }
    file << line.dump() << "\n";
  }
  return path;
}

TEST(AblateVerb, GivesTheFixturesEffects) {
  const ScratchFolder scratch;
  const json fixture = json::parse(read_file("tests/data/copy_heads.json"));
  const std::string task = write_copy_task(scratch, fixture["clean"].size());
  const ProgramResult run =
      run_openwork({"ablate", "openwork-8m", "--task", task, "--json", scratch / "effects.json", "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json result = json::parse(read_file(scratch / "effects.json"));
  EXPECT_EQ(result["ablation"], "mean");
  EXPECT_NEAR(result["clean_metric"].get<double>(), fixture["clean_metric"].get<double>(), 1e-3);
  EXPECT_NEAR(result["corrupt_metric"].get<double>(), fixture["corrupt_metric"].get<double>(), 1e-3);
  for (size_t layer = 0; layer < 8; ++layer) {
    for (size_t head = 0; head < 8; ++head) {
      EXPECT_NEAR(result["effects"][layer][head].get<double>(),
                  fixture["mean_ablation_effect"][layer][head].get<double>(), 1e-3);
    }
  }
  EXPECT_EQ(result["protocol"]["prompts"], 24);
  EXPECT_EQ(result["protocol"]["task_sha256"].get<std::string>().size(), 64u);
  EXPECT_FALSE(std::filesystem::exists(scratch / "effects.json.sweep"));
}

TEST(AblateVerb, MeasuresNamedPartsAndInputs) {
  const ScratchFolder scratch;
  const std::string task = write_copy_task(scratch, 2);
  const ProgramResult named = run_openwork({"ablate", "openwork-8m", "--task", task, "--only",
                                            "L5H6,L6H0<k>,m3,L6H0:30<-6", "--json", "-", "--quiet"});
  ASSERT_EQ(named.exit_code, 0) << named.err;
  ASSERT_EQ(named.json()["parts"].size(), 4u);
  EXPECT_EQ(named.json()["parts"][3]["name"], "L6H0:30<-6");
  EXPECT_GT(named.json()["parts"][0]["effect"].get<double>(), 1);
  const ProgramResult mlps = run_openwork({"ablate", "openwork-8m", "--task", task, "--of", "mlp",
                                           "--ablation", "zero", "--json", "-", "--quiet"});
  ASSERT_EQ(mlps.exit_code, 0) << mlps.err;
  EXPECT_EQ(mlps.json()["effects"].size(), 8u);
  EXPECT_EQ(mlps.json()["effects"][0].size(), 1u);
}

TEST(CircuitVerb, WritesCurvesComparisonAndFigure) {
  const ScratchFolder scratch;
  const std::string task = write_copy_task(scratch, 2);
  const ProgramResult run =
      run_openwork({"circuit", "openwork-8m", "openwork-8m", "--task", task, "--heads", "L5H6,L6H0", "--out",
                    scratch / "circuit.svg", "--json", scratch / "circuit.json", "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json result = json::parse(read_file(scratch / "circuit.json"));
  ASSERT_EQ(result["models"].size(), 2u);
  const json& model = result["models"][0];
  EXPECT_EQ(model["level"], "head");
  EXPECT_EQ(model["order"].size(), 64u);
  ASSERT_EQ(model["faithfulness"].size(), 65u);
  const auto size = model["heads_at_threshold"].get<size_t>();
  EXPECT_GE(model["faithfulness"][size].get<double>(), 0.9);
  EXPECT_LT(model["faithfulness"][size - 1].get<double>(), 0.9);
  EXPECT_TRUE(model["edges_at_threshold"].is_null());
  EXPECT_EQ(model["named"]["heads"].size(), 2u);
  EXPECT_DOUBLE_EQ(result["comparison"][0]["ratio"].get<double>(), 1);  // a model beside itself
  EXPECT_TRUE(result.contains("protocol"));
  EXPECT_NE(read_file(scratch / "circuit.svg").find("<svg"), std::string::npos);
}

TEST(CircuitVerb, ReportsEveryLevelAreaAndAllRatiosOfThreeModels) {
  const ScratchFolder scratch;
  const std::string task = write_copy_task(scratch, 2);
  const ProgramResult run = run_openwork({"circuit", "openwork-8m", "openwork-8m", "openwork-8m-sparse",
                                          "--task", task, "--greedy", "--json", scratch / "circuit.json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json result = json::parse(read_file(scratch / "circuit.json"));
  ASSERT_EQ(result["models"].size(), 3u);
  for (const json& model : result["models"]) {
    const size_t total = model["faithfulness"].size() - 1;
    double area = 0;
    for (size_t k = 0; k < total; ++k)
      area += (model["faithfulness"][k].get<double>() + model["faithfulness"][k + 1].get<double>()) / 2;
    EXPECT_NEAR(model["area"].get<double>(), area / static_cast<double>(total), 1e-9);
    for (const char* level : {"0.5", "0.8", "0.9", "0.95"}) {
      const auto count = model["at"].at(level).get<size_t>();
      EXPECT_GE(model["faithfulness"][count].get<double>(), std::stod(level));
      EXPECT_LT(model["faithfulness"][count - 1].get<double>(), std::stod(level));
      EXPECT_LE(model["greedy"]["at"].at(level).get<size_t>(), count);
    }
    EXPECT_EQ(model["at"]["0.9"], model["heads_at_threshold"]);
  }
  ASSERT_EQ(result["comparison"].size(), 3u);
  const json &control = result["comparison"][0], &sparse = result["comparison"][2];
  EXPECT_DOUBLE_EQ(control["ratio"].get<double>(), 1);
  EXPECT_DOUBLE_EQ(control["area"]["difference"].get<double>(), 0);
  EXPECT_EQ(sparse["sparse"], "openwork-8m-sparse");
  EXPECT_NEAR(sparse["at"]["0.8"]["ratio"].get<double>(),
              result["models"][1]["at"]["0.8"].get<double>() / result["models"][2]["at"]["0.8"].get<double>(),
              1e-9);
  EXPECT_TRUE(sparse["greedy"]["at"]["0.5"]["interval"].is_null());  // one seed
  EXPECT_NE(run.out.find("area"), std::string::npos);
  EXPECT_NE(run.out.find("spare heads dropped"), std::string::npos);
}

TEST(CircuitVerb, ExportsEveryGraphEdgeAsMib) {
  const ScratchFolder scratch;
  const json fixture = json::parse(read_file("tests/data/eap_base8m.json"));
  const std::string task = write_copy_task(scratch, 8);
  const ProgramResult run = run_openwork({"circuit", "openwork-8m", "--task", task, "--method", "eap",
                                          "--threshold", "0", "--mib", scratch / "edges.json", "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json mib = json::parse(read_file(scratch / "edges.json"));
  EXPECT_EQ(mib["edges"].size(), 6637u);
  EXPECT_EQ(mib["nodes"].size(), 74u);
  EXPECT_EQ(mib["cfg"]["n_layers"], 8);
  for (const auto& [name, score] : fixture["eap"].items()) {
    const double expected = score.get<double>();
    EXPECT_NEAR(mib["edges"].at(name)["score"].get<double>(), expected, 1e-4 + 2e-3 * std::abs(expected))
        << name;
  }
}

TEST(CircuitVerb, ATaskTheModelDoesNotDoIsRefusedAndLeavesNothing) {
  const ScratchFolder scratch;
  const json fixture = json::parse(read_file("tests/data/copy_heads.json"));
  json line = {{"clean", fixture["clean"][0]}, {"corrupt", fixture["corrupt"][0]}};
  for (size_t i = 25; i < 50; ++i) {  // answer and wrong the other way round
    line["at"].push_back(i);
    line["answer"].push_back(fixture["corrupt"][0][i - 24]);
    line["wrong"].push_back(fixture["clean"][0][i + 1]);
  }
  std::ofstream(scratch / "task.jsonl") << line.dump() << "\n";
  const ProgramResult run =
      run_openwork({"circuit", "openwork-8m", "--task", scratch / "task.jsonl", "--sweep",
                    scratch / "kept.sweep", "--json", scratch / "result.json"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("openwork-8m seed 0: the metric is"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("the model does not do this task"), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("effects"), std::string::npos) << run.err;  // said before the sweep
  EXPECT_FALSE(std::filesystem::exists(scratch / "kept.sweep"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "result.json"));
}

TEST(CircuitVerb, BadInputIsOneLine) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "unequal.jsonl")
      << R"({"clean": [1, 2, 3], "corrupt": [1, 2], "answer": 4, "wrong": 5})";
  std::ofstream(scratch / "long.jsonl")
      << R"({"clean": "a b", "corrupt": "a c", "answer": " went to the store", "wrong": " b"})";
  std::ofstream(scratch / "fine.jsonl")
      << R"({"clean": [1, 2, 3], "corrupt": [1, 5, 3], "answer": 4, "wrong": 5})";
  const std::string fine = scratch / "fine.jsonl";
  expect_refusal({"ablate", "openwork-8m"}, "--task");
  expect_refusal({"ablate", "openwork-8m", "--task", "juggling"}, "no task 'juggling'");
  expect_refusal({"ablate", "openwork-8m", "--task", scratch / "unequal.jsonl"},
                 "clean has 3 tokens and corrupt 2");
  expect_refusal({"circuit", "openwork-8m", "--task", scratch / "long.jsonl"}, "tokens; line 1");
  expect_refusal({"ablate", "openwork-8m", "--task", fine, "--ablation", "median"},
                 "unknown ablation 'median'");
  expect_refusal({"ablate", "openwork-8m", "--task", fine, "--only", "L8H0"}, "the model has no L8H0");
  expect_refusal({"ablate", "openwork-8m", "--task", fine, "--only", "H3"}, "'H3' is no part of a model");
  expect_refusal({"ablate", "openwork-8m", "--task", fine, "--only", "L0H0:1<-2"}, "no attention edge");
  expect_refusal({"ablate", "tests/data/gpt2", "--task", "ioi"}, "no tokenizer");
  expect_refusal({"circuit", "openwork-8m", "--task", fine, "--level", "neuron"}, "neuron");
  expect_refusal({"circuit", "openwork-8m", "--task", fine, "--level", "head", "--mib", scratch / "x"},
                 "--mib with --level head");
  expect_refusal({"circuit", "openwork-8m", "--task", fine, "--out", scratch / "x.gif"}, "gif");
  expect_refusal({"circuit", "openwork-8m", "--task", fine, "--seeds", "3"}, "--seeds with a file");
  expect_refusal({"circuit", "openwork-8m", "--task", fine, "--heads", "L99H0"}, "the model has no L99H0");
  expect_refusal({"circuit", "openwork-8m", "--task", fine, "--heads", "L5H1<q>"}, "'L5H1<q>' is no head");
}

}  // namespace
}  // namespace openwork
