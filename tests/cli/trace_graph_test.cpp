// trace's graphs as files: against circuit-tracer's definition worked out elsewhere, drawn again without the model, and
// held against the model itself.
#include <cmath>
#include <map>
#include <set>

#include "cli/command.h"

namespace openwork {
namespace {

nlohmann::json run_trace(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "trace");
  arguments.insert(arguments.end(), {"--json", "-", "--quiet", "--threads", "1"});
  const ProgramResult result = run_openwork(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? result.json() : nlohmann::json();
}

const std::vector<std::string> kRelu = {"tests/data/relu_gpt2", "--tokens", "5,17,2,30,11", "--transcoder",
                                        "tests/data/relu_gpt2/transcoders"};

std::vector<std::string> add_to(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// tests/python/circuit_graph.py made the edges, by autograd on the replaced model.
TEST(TraceGraphFile, HasEveryEdgeOfCircuitTracersDefinition) {
  const ScratchFolder scratch;
  run_trace(add_to(kRelu, {"--node-threshold", "1", "--edge-threshold", "1", "--graph", scratch / "g.json"}));
  const nlohmann::json graph = nlohmann::json::parse(read_file(scratch / "g.json"));
  std::map<std::pair<std::string, std::string>, double> seen;
  for (const nlohmann::json& link : graph["links"]) {
    if (!link["source"].get<std::string>().starts_with("bias_"))
      seen[{link["source"], link["target"]}] = link["weight"];
  }
  const nlohmann::json wanted = nlohmann::json::parse(read_file("tests/data/relu_gpt2/edges.json"))["edges"];
  size_t edges = 0;
  for (const auto& [target, row] : wanted.items()) {
    for (const auto& [source, value] : row.items()) {
      const double weight = value;
      ASSERT_TRUE(seen.contains({source, target}) || std::abs(weight) < 1e-5) << source << " -> " << target;
      EXPECT_NEAR((seen[{source, target}]), weight, 1e-4 * std::max(1.0, std::abs(weight)))
          << source << " -> " << target;
      ++edges;
    }
  }
  EXPECT_GT(edges, 1000u);
  EXPECT_EQ(seen.size(), edges) << "and no other";
}

TEST(TraceGraphFile, IsDrawnAgainWithoutTheModel) {
  const ScratchFolder scratch;
  run_trace(
      add_to(kRelu, {"--graph", scratch / "g.json", "--out", scratch / "first.svg", "--query-key", "top"}));
  const ProgramResult again =
      run_openwork({"trace", "--from-graph", scratch / "g.json", "--out", scratch / "again.svg"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(read_file(scratch / "again.svg") == read_file(scratch / "first.svg")) << "not the same picture";
  expect_refusal({"trace", "--from-graph", scratch / "g.json"}, "a kept graph and nothing to make of it");
  expect_refusal({"trace", "openwork-8m", "--from-graph", scratch / "g.json", "--out", scratch / "x.svg"},
                 "a kept graph and a model or prompt");
  std::ofstream(scratch / "bad.json")
      << R"({"metadata": {"scan": "x", "prompt": "a", "prompt_tokens": ["a"]},)"
      << R"("nodes": [{"node_id": "0_1_7", "layer": "0", "ctx_idx": 7,)"
      << R"("feature_type": "cross layer transcoder"}], "links": []})";
  expect_refusal({"trace", "--from-graph", scratch / "bad.json", "--out", scratch / "x.svg"}, "position 7");
  // Numbers that no double, and no float32, holds.
  std::string graph = read_file(scratch / "g.json");
  const size_t weight = graph.find("\"weight\":", graph.find("\"links\"")) + 9;
  for (const auto& [number, message] :
       {std::pair{"1e999", "not valid JSON"}, std::pair{"1e300", "a weight beyond float32"}}) {
    std::ofstream(scratch / "large.json")
        << graph.substr(0, weight) << number << graph.substr(graph.find_first_of(",}", weight));
    expect_refusal({"trace", "--from-graph", scratch / "large.json", "--graph", scratch / "x.json"}, message);
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "x.json"));
  std::ofstream(scratch / "none.json") << "{}";
  expect_refusal({"trace", "--from-graph", scratch / "none.json", "--out", scratch / "x.svg"},
                 "no attribution graph");
}

using Ends = std::pair<std::string, std::string>;

std::map<Ends, double> links_of(const nlohmann::json& graph) {
  std::map<Ends, double> links;
  for (const nlohmann::json& link : graph["links"]) links[{link["source"], link["target"]}] = link["weight"];
  return links;
}

nlohmann::json read_graph(const std::string& path) {
  return nlohmann::json::parse(read_file(path));
}

TEST(TraceGraphFile, IsPrunedWithoutTheModelAsTracingPrunes) {
  const ScratchFolder scratch;
  const std::vector<std::string> thresholds = {"--node-threshold", "0.6", "--edge-threshold", "0.8"};
  run_trace(add_to(kRelu, {"--node-threshold", "1", "--edge-threshold", "1", "--query-key", "top", "--graph",
                           scratch / "whole.json"}));
  run_trace(add_to(add_to(kRelu, thresholds), {"--graph", scratch / "traced.json"}));
  const auto prune = [&](const std::string& from, const std::string& to) {
    const ProgramResult result = run_openwork(
        add_to({"trace", "--from-graph", scratch / from, "--graph", scratch / to, "--out", scratch / "p.svg"},
               thresholds));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find(" % of the influence"), std::string::npos) << result.out;
    return read_graph(scratch / to);
  };
  const nlohmann::json whole = read_graph(scratch / "whole.json"),
                       traced = read_graph(scratch / "traced.json"),
                       small = prune("whole.json", "small.json");
  EXPECT_EQ(links_of(small), links_of(traced));
  EXPECT_EQ(small["nodes"], traced["nodes"]);
  EXPECT_LT(small["links"].size(), whole["links"].size() / 4);
  const nlohmann::json &kept = small["metadata"]["openwork"], &had = whole["metadata"]["openwork"];
  for (const char* part : {"worth", "explanation", "transcoders", "title"})
    EXPECT_EQ(kept[part], had[part]) << part;
  EXPECT_EQ(small["metadata"]["protocol"], whole["metadata"]["protocol"]);
  EXPECT_EQ(small["metadata"]["slug"], "small");
  EXPECT_EQ(kept["pruned"][0]["file"], "whole.json");
  EXPECT_EQ(kept["pruned"][0]["from"]["links"], whole["links"].size());
  const std::string figure = read_file(scratch / "p.svg");
  ASSERT_EQ(
      run_openwork({"trace", "--from-graph", scratch / "small.json", "--out", scratch / "s.svg"}).exit_code,
      0);
  EXPECT_TRUE(read_file(scratch / "s.svg") == figure) << "the figure is of what was written";
  const nlohmann::json again = prune("small.json", "again.json");
  EXPECT_EQ(again["nodes"], small["nodes"]);
  EXPECT_EQ(again["links"], small["links"]);
}

TEST(TraceGraphFile, OfSeveralModelsArePrunedToANameEach) {
  const ScratchFolder scratch;
  run_trace(add_to(kRelu, {"--graph", scratch / "a.json"}));
  run_trace({"openwork-8m", "A B A", "--transcoder", "none", "--graph", scratch / "b.json"});
  const ProgramResult both =
      run_openwork({"trace", "--from-graph", scratch / "a.json", "--from-graph", scratch / "b.json",
                    "--graph", scratch / "s.json", "--node-threshold", "0.5"});
  ASSERT_EQ(both.exit_code, 0) << both.err;
  EXPECT_EQ(read_graph(scratch / "s-relu_gpt2.json")["metadata"]["openwork"]["title"], "relu_gpt2");
  EXPECT_EQ(read_graph(scratch / "s-openwork-8m.json")["metadata"]["openwork"]["title"], "openwork-8m");
  expect_refusal({"trace", "--from-graph", scratch / "a.json", "--from-graph", scratch / "a.json", "--graph",
                  scratch / "t.json"},
                 "two graphs of one model");
  expect_refusal({"trace", "--from-graph", scratch / "a.json", "--graph", scratch / "a.json"},
                 "--graph would replace what --from-graph reads");
}

TEST(TraceGraphFile, OfModelsWhoseFoldersShareANameAreTwo) {
  const ScratchFolder scratch;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(scratch / name);
    std::filesystem::copy("tests/data/gpt2", scratch.path() / name / "model",
                          std::filesystem::copy_options::recursive);
  }
  const ProgramResult both =
      run_openwork({"trace", scratch / "a/model", scratch / "b/model", "--tokens", "1,2,3", "--transcoder",
                    "none", "--transcoder", "none", "--graph", scratch / "both.json"});
  ASSERT_EQ(both.exit_code, 0) << both.err;
  std::set<std::string> titles;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    if (entry.path().extension() == ".json")
      titles.insert(read_graph(entry.path().string())["metadata"]["openwork"]["title"]);
  }
  EXPECT_EQ(titles, (std::set<std::string>{scratch / "a/model", scratch / "b/model"}));
}

TEST(TraceGraphFile, IsPackedAndReadPackedWhereItsNameSaysSo) {
  const ScratchFolder scratch;
  run_trace(add_to(kRelu, {"--graph", scratch / "g.json.zst", "--out", scratch / "first.svg"}));
  EXPECT_TRUE(read_file(scratch / "g.json.zst").starts_with("\x28\xb5\x2f\xfd"));
  const auto use = [&](const std::vector<std::string>& files, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"trace"};
    for (const std::string& file : files) words.insert(words.end(), {"--from-graph", scratch / file});
    const ProgramResult result = run_openwork(add_to(words, more));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  };
  use({"g.json.zst"}, {"--graph", scratch / "plain.json", "--out", scratch / "again.svg"});
  EXPECT_TRUE(read_file(scratch / "again.svg") == read_file(scratch / "first.svg")) << "not the same picture";
  use({"plain.json"}, {"--graph", scratch / "small.json.zst", "--node-threshold", "0.5"});
  use({"small.json.zst"}, {"--graph", scratch / "small.json"});
  const nlohmann::json plain = read_graph(scratch / "plain.json"), small = read_graph(scratch / "small.json");
  EXPECT_LT(small["nodes"].size(), plain["nodes"].size());
  EXPECT_LT(std::filesystem::file_size(scratch / "g.json.zst"),
            std::filesystem::file_size(scratch / "plain.json") / 2);
  run_trace({"openwork-8m", "A B A", "--transcoder", "none", "--graph", scratch / "b.json"});
  use({"g.json.zst", "b.json"}, {"--graph", scratch / "s.json.zst"});
  use({"s-relu_gpt2.json.zst"}, {"--graph", scratch / "one.json"});
  use({"s-openwork-8m.json.zst"}, {"--out", scratch / "x.svg"});
  std::ofstream(scratch / "cut.json.zst") << read_file(scratch / "g.json.zst").substr(0, 1000);
  expect_refusal({"trace", "--from-graph", scratch / "cut.json.zst", "--out", scratch / "x.svg"},
                 "the zst file ends too early");
}

TEST(TraceGraphFile, RefusesWhatOnlyAModelCouldAnswer) {
  const ScratchFolder scratch;
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{"--target", "a"},
                                                                                    {"--from", "1"},
                                                                                    {"--ablate", "L0H0"},
                                                                                    {"--query-key", "top"},
                                                                                    {"--json", "-"},
                                                                                    {"--max-nodes", "5"},
                                                                                    {"--prompts", "p.txt"},
                                                                                    {"--features-out", "f"},
                                                                                    {"--transcoder", "none"}})
    expect_refusal(add_to({"trace", "--from-graph", "none.json", "--out", scratch / "x.svg"}, more),
                   "an option that needs a model; " + more.front());
  expect_refusal({"trace", "--from-graph", "g.json", "--graph", scratch / "s.json", "--node-threshold", "0"},
                 "is not a number from 0.01 to 1");
}

TEST(TraceGraphFile, ScoresAreTablesThatSumToThem) {
  const nlohmann::json model =
      run_trace(add_to(kRelu, {"--query-key", "L2H1:4<-1", "--query-key", "top"}))["models"][0];
  ASSERT_EQ(model["query_key"].size(), 2u);
  for (const nlohmann::json& score : model["query_key"]) {
    double sum = 0;
    for (const nlohmann::json& row : score["weights"])
      for (const nlohmann::json& weight : row) sum += weight.get<double>();
    EXPECT_NEAR(sum, score["score"].get<double>(), 1e-4);
    EXPECT_TRUE(score["queries"].back().is_null());
    EXPECT_EQ(score["weights"][0].size(), score["keys"].size());
  }
  const nlohmann::json& explanation = model["explanation"];
  EXPECT_TRUE(model["query_key"][1]["entry"].get<std::string>().starts_with(
      explanation["heads"][0]["head"].get<std::string>() + ":"));
}

TEST(TraceInterventions, GiveRankCorrelationsOfEveryModelAndTheirDifference) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "p.txt") << "A cat and a dog\nOnce upon a time\nThe end\n";
  const nlohmann::json result =
      run_trace({"openwork-8m", "openwork-8m-sparse", "--prompts", scratch / "p.txt", "--transcoder", "none",
                 "--transcoder", "none", "--interventions", "2"});
  ASSERT_EQ(result["texts"].size(), 2u) << "the first two";
  ASSERT_EQ(result["models"].size(), 2u);
  const nlohmann::json& sets = result["models"][0]["sets"];
  for (const char* set : {"top_features", "random_features", "top_heads", "random_heads"}) {
    const double rank = sets[set]["rank_pooled"]["value"];
    EXPECT_LE(std::abs(rank), 1) << set;
    EXPECT_LE(sets[set]["rank_pooled"]["interval"][0].get<double>(), rank + 1e-12) << set;
    EXPECT_GE(sets[set]["rank_pooled"]["interval"][1].get<double>(), rank - 1e-12) << set;
  }
  const nlohmann::json& prompt = result["models"][1]["prompts"][0];
  EXPECT_EQ(prompt["top_heads"]["interventions"].size(), 10u);
  EXPECT_EQ(prompt["top_features"]["interventions"][0]["factor"], 0);
  EXPECT_NEAR(sets["top_heads"]["forecasts"]["patterns"]["rank_pooled"]["value"].get<double>(), 1, 0.01)
      << "without transcoders everything that follows is the model";
  EXPECT_TRUE(result["comparison"][0]["sets"]["top_features"]["rank_per_prompt"].contains("interval"));
  EXPECT_EQ(result["protocol"]["prompt"]["count"], 2);
}

TEST(TraceInterventions, TakeTheirPromptsFromATaskToo) {
  const nlohmann::json result =
      run_trace({"openwork-8m", "--task", "ioi", "--transcoder", "none", "--interventions", "2"});
  EXPECT_EQ(result["texts"].size(), 2u);
  EXPECT_EQ(result["protocol"]["prompt"]["task"], "ioi");
  expect_refusal({"trace", "openwork-8m", "a b", "--interventions"}, "interventions without prompts");
  expect_refusal({"trace", "openwork-8m", "--task", "ioi"}, "a task without --interventions");
}

}  // namespace
}  // namespace openwork
