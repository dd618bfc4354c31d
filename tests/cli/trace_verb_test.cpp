// trace as a person calls it: what is said, drawn and written of a prompt, and what is refused.
#include <ATen/ATen.h>

#include <cmath>
#include <set>

#include "cli/command.h"
#include "io/model_store.h"
#include "text/tokenizer.h"
#include "transcode/descriptions.h"
#include "transcode/transcoder_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

const std::string kPrompt = "The opposite of 'large' is '";

nlohmann::json trace(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "trace");
  arguments.insert(arguments.end(), {"--json", "-", "--quiet", "--threads", "1"});
  const ProgramResult result = run_openwork(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? result.json() : nlohmann::json();
}

// Transcoders of a small GPT-2 by a fixed rule: not good ones, but every identity holds for any.
void write_transcoders(const std::string& folder, const std::string& model_sha256, int64_t layers = 3,
                       int64_t width = 32, double decoder = 0.1) {
  at::manual_seed(5);
  Transcoders transcoders;
  transcoders.model = "tiny", transcoders.model_sha256 = model_sha256, transcoders.scan = "tiny-plt";
  for (int64_t n = 0; n < layers; ++n) {
    LayerTranscoder layer;
    layer.encoder = at::randn({24, width}) / std::sqrt(static_cast<double>(width));
    layer.encoder_bias = at::randn({24}) * 0.1;
    layer.threshold = at::full({24}, 0.2);
    layer.decoder = at::randn({24, 1, width}) * decoder;
    layer.decoder_bias = at::randn({width}) * 0.1;
    transcoders.layers.push_back(layer);
  }
  save_transcoders(folder, transcoders, kPlainBits);
}

TEST(TraceVerb, TracesAModelWithoutTranscodersAndItsSumsHold) {
  const nlohmann::json result = trace({"openwork-8m", kPrompt, "--transcoder", "none"});
  const nlohmann::json& model = result["models"][0];
  EXPECT_EQ(model["name"], "openwork-8m");
  EXPECT_TRUE(model["transcoders"].is_null());
  EXPECT_LE(model["sums"]["effects"].get<double>(), 1e-4);
  EXPECT_LE(model["sums"]["heads"].get<double>(), 1e-4);
  EXPECT_GT(model["sums"]["links"].get<int64_t>(), 0);
  EXPECT_EQ(model["targets"].size(), 1u);
  const nlohmann::json& explanation = model["explanation"];
  EXPECT_EQ(explanation["to"], model["ids"].size() - 1) << "the last token, unless asked otherwise";
  const size_t most = model["moved"][0]["from"] == 0 ? 1 : 0;  // the sink aside
  EXPECT_EQ(explanation["from"], model["moved"][most]["from"]) << "where most is moved from";
  double sum = 0, needed = 0;
  for (size_t n = 0; n < explanation["heads"].size(); ++n) {
    sum += explanation["heads"][n]["weight"].get<double>();
    if (n < explanation["needed"].get<size_t>()) needed = sum;
  }
  EXPECT_NEAR(sum, explanation["total"].get<double>(), 1e-4 * sum);
  EXPECT_GE(needed, 0.8 * sum * (1 - 1e-9));
  EXPECT_EQ(result["protocol"]["models"][0]["name"], "openwork-8m");
  EXPECT_EQ(result["protocol"]["explain"], 0.8);
  EXPECT_EQ(result["one_answer"], true);
  EXPECT_TRUE(model["worth"].is_null()) << "nothing is replaced";
}

TEST(TraceVerb, SaysWhereModelsAnswerDifferently) {
  const std::vector<std::string> models = {"tests/data/gpt2", "tests/data/llama", "--tokens", "3,9,4,11,2"};
  const nlohmann::json own = trace(models);
  const bool same = own["models"][0]["targets"][0]["token"] == own["models"][1]["targets"][0]["token"];
  ASSERT_FALSE(same) << "two models of random weights";
  EXPECT_EQ(own["one_answer"], false);
  std::vector<std::string> arguments = models;
  arguments.insert(arguments.begin(), "trace");
  const std::string said = run_openwork(arguments).out;
  EXPECT_NE(said.find("The models answer differently, and each is traced to its own answer: "),
            std::string::npos)
      << said;
  arguments.insert(arguments.end(), {"--target", "7"});
  EXPECT_EQ(run_openwork(arguments).out.find("answer differently"), std::string::npos);
}

TEST(TraceVerb, PositionsMayBeWordsAndTargetsAreChosen) {
  const nlohmann::json model = trace({"openwork-8m", kPrompt, "--transcoder", "none", "--from", "opposite",
                                      "--to", "is", "--target", " the", "--target", " a"})["models"][0];
  EXPECT_EQ(model["targets"].size(), 2u);
  EXPECT_EQ(model["targets"][0]["token"], " the");
  const std::string from = model["tokens"][model["explanation"]["from"].get<size_t>()];
  const std::string to = model["tokens"][model["explanation"]["to"].get<size_t>()];
  EXPECT_TRUE(std::string("opposite").ends_with(from) || from == " opposite") << from;
  EXPECT_EQ(to, " is");
}

TEST(TraceVerb, DrawsModelsTogetherAndWritesAGraphForEach) {
  const ScratchFolder scratch;
  const ProgramResult result = run_openwork(
      {"trace", "openwork-8m", "openwork-8m-sparse", kPrompt, "--transcoder", "none", "--transcoder", "none",
       "--out", scratch / "t.svg", "--graph", scratch / "g.json", "--threads", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("heads carry 80 % of key"), std::string::npos) << result.out;
  EXPECT_TRUE(read_file(scratch / "t.svg").starts_with("<?xml"));
  for (const std::string name : {"g-openwork-8m.json", "g-openwork-8m-sparse.json"}) {
    const nlohmann::json graph = nlohmann::json::parse(read_file(scratch / name));
    std::set<std::string> ids;
    for (const nlohmann::json& node : graph["nodes"]) ids.insert(node["node_id"]);
    EXPECT_EQ(ids.size(), graph["nodes"].size());
    bool moved = false;
    for (const nlohmann::json& link : graph["links"]) {
      EXPECT_TRUE(ids.contains(link["source"]) && ids.contains(link["target"]));
      if (!link.contains("heads")) continue;
      moved = true;
      double sum = link.value("other_heads", 0.0);
      for (const nlohmann::json& head : link["heads"]) sum += head[2].get<double>();
      EXPECT_NEAR(sum, link["weight"].get<double>(), 1e-4 * std::max(1.0, std::abs(sum)));
    }
    EXPECT_TRUE(moved) << name;
    EXPECT_EQ(graph["metadata"]["prompt"], kPrompt);
  }
}

TEST(TraceVerb, InterventionsAndScoresAreReported) {
  const nlohmann::json model =
      trace({"openwork-8m", kPrompt, "--transcoder", "none", "--ablate", "L5H1", "--ablate", "T@3", "--boost",
             "M2@3=1.5", "--query-key", "L5H1:5<-3"})["models"][0];
  ASSERT_EQ(model["interventions"].size(), 3u);
  for (const nlohmann::json& change : model["interventions"]) {
    const double predicted = change["predicted"];
    EXPECT_NEAR(change["frozen"].get<double>(), predicted, 1e-3 * std::max(1.0, std::abs(predicted)))
        << change;
  }
  EXPECT_EQ(model["interventions"][2]["factor"], 1.5);
  EXPECT_EQ(model["agreement"]["of"], 3);
  EXPECT_EQ(model["query_key"][0]["entry"], "L5H1:5<-3");
  EXPECT_FALSE(model["query_key"][0]["pairs"].empty());
}

TEST(TraceVerb, TranscodersBringFeatures) {
  const ScratchFolder scratch;
  write_transcoders(scratch / "tc", model_hash(fs::path("tests/data/gpt2")));
  const nlohmann::json model =
      trace({"tests/data/gpt2", "--tokens", "3,9,4,11,2", "--transcoder", scratch / "tc"})["models"][0];
  EXPECT_EQ(model["transcoders"]["scan"], "tiny-plt");
  EXPECT_GT(model["active_features"].get<int64_t>(), 0);
  EXPECT_LE(model["sums"]["effects"].get<double>(), 1e-4);
  EXPECT_LE(model["sums"]["heads"].get<double>(), 1e-4);
  for (const char* score :
       {"replacement_score", "completeness_score", "error_share", "replaced_probability"}) {
    EXPECT_GE(model["worth"][score].get<double>(), 0) << score;
    EXPECT_LE(model["worth"][score].get<double>(), 1) << score;
  }
  EXPECT_GT(model["worth"]["replaced_loss"].get<double>(), 0);
  bool feature = false;
  for (const nlohmann::json& node : model["strongest"]) feature |= node["kind"] == "feature";
  EXPECT_TRUE(feature) << model["strongest"];
}

TEST(TraceVerb, FeaturesAreNamedByWhereTheyPeakAndWrittenForViewers) {
  const ScratchFolder scratch;
  write_transcoders(scratch / "tc", "", 8, 256, 1);  // loud ones: they must be in the graph
  const int32_t peak = Tokenizer::from_file("models/openwork-8m").encode(" and").front();
  Descriptions descriptions;
  descriptions.tokens = 100;
  const FeatureContext often{{5, peak}, {0, 2}, 1}, once{{7, 9}, {3, 0}, 0};
  const FeatureDescription all_alike{3, 0.1, {once, often, often}, {peak}, {5}};
  descriptions.layers.assign(8, std::vector<FeatureDescription>(24, all_alike));
  save_descriptions(scratch / "tc", descriptions);
  const nlohmann::json model = trace(
      {"openwork-8m", kPrompt, "--transcoder", scratch / "tc", "--features-out", scratch / "f"})["models"][0];
  size_t features = 0;
  for (const nlohmann::json& node : model["strongest"]) {
    if (node["kind"] != "feature") continue;
    ++features;
    EXPECT_EQ(node["about"], " and");
    const int64_t number = pair_index(node["layer"], node["feature"]);
    const nlohmann::json details =
        nlohmann::json::parse(read_file(scratch / ("f/" + std::to_string(number) + ".json")));
    EXPECT_EQ(details["index"], number);
    EXPECT_FALSE(details["examples_quantiles"].empty());
  }
  EXPECT_GT(features, 0u) << model["strongest"];
  expect_refusal({"trace", "openwork-8m", "a b", "--transcoder", "none", "--features-out", scratch / "g"},
                 "nothing is known of");
}

TEST(TraceVerb, ManyPromptsGiveHeadsWithIntervalsAndARatio) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "p.jsonl")
      << R"({"prompt": "The opposite of 'large' is '", "from": {"word": "large"}})"
      << "\n"
      << R"({"prompt": "A cat and a dog", "target": " and", "from": 1, "to": 3})"
      << "\n\n"
      << R"({"prompt": "Once upon a time"})"
      << "\n";
  const nlohmann::json result = trace({"openwork-8m", "openwork-8m-sparse", "--prompts", scratch / "p.jsonl",
                                       "--transcoder", "none", "--transcoder", "none"});
  ASSERT_EQ(result["models"].size(), 2u);
  const nlohmann::json& dense = result["models"][0];
  ASSERT_EQ(dense["prompts"].size(), 3u);
  EXPECT_EQ(dense["prompts"][1]["from"], 1);
  EXPECT_EQ(dense["prompts"][1]["to"], 3);
  EXPECT_EQ(dense["prompts"][1]["target"], " and");
  double mean = 0;
  for (const nlohmann::json& prompt : dense["prompts"]) mean += prompt["needed"].get<double>() / 3;
  EXPECT_NEAR(dense["mean"].get<double>(), mean, 1e-9);
  EXPECT_LE(dense["interval"][0].get<double>(), mean);
  EXPECT_GE(dense["interval"][1].get<double>(), mean);
  EXPECT_NEAR(result["comparison"][0]["ratio"].get<double>(),
              mean / result["models"][1]["mean"].get<double>(), 1e-9);
  EXPECT_EQ(result["protocol"]["prompt"]["count"], 3);
}

TEST(TraceVerb, APromptOfOneTokenHasNothingToMove) {
  const nlohmann::json model = trace({"tests/data/gpt2", "--tokens", "7"})["models"][0];
  EXPECT_TRUE(model["explanation"].is_null());
  EXPECT_LE(model["sums"]["effects"].get<double>(), 1e-4);
}

TEST(TraceVerb, RefusesWhatCannotBeTraced) {
  const auto refused = [](std::vector<std::string> arguments, const std::vector<std::string>& more,
                          const std::string& message) {
    arguments.insert(arguments.begin(), "trace");
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refusal(arguments, message);
  };
  const std::vector<std::string> text = {"openwork-8m", kPrompt, "--transcoder", "none"};
  refused(text, {"--target", "smallish words"}, "is not one token");
  refused(text, {"--from", "zebra"}, "neither a position nor a word");
  refused(text, {"--transcoder", "none"}, "2 transcoder folders for 1 models");
  const std::vector<std::string> tiny = {"tests/data/gpt2", "--tokens", "3,9,4,11,2"};
  refused(tiny, {"--from", "3", "--to", "3"}, "from position 3 to position 3");
  refused(tiny, {"--from", "99"}, "position 99 of a prompt of 5 tokens");
  refused(tiny, {"--ablate", "L1X@2"}, "L1X@2");
  refused(tiny, {"--ablate", "M99@2"}, "M99@2");
  refused(tiny, {"--ablate", "L99H1"}, "L99H1");
  refused(tiny, {"--boost", "L1H1"}, "is not NODE=X");
  refused(tiny, {"--query-key", "L99H0:3<-1"}, "L99H0");
  refused(tiny, {"--query-key", "L1H1:1<-3"}, "no pattern entry");
  refused(tiny, {"--memory", "0.001"}, "tracing 5 tokens takes");
  refused(tiny, {"--dtype", "bf16"}, "tracing in bf16");
  refused(tiny, {"--out", "trace.txt"}, "no figure's file name");
}

TEST(TraceVerb, RefusesTranscodersOfAnotherModel) {
  const ScratchFolder scratch;
  write_transcoders(scratch / "other", std::string(64, 'a'));
  expect_refusal({"trace", "tests/data/gpt2", "--tokens", "1,2", "--transcoder", scratch / "other"},
                 "transcoders of another model");
  write_transcoders(scratch / "narrow", "", 3, 16);
  expect_refusal({"trace", "tests/data/gpt2", "--tokens", "1,2", "--transcoder", scratch / "narrow"},
                 "transcoders of width 16");
  expect_refusal({"trace", "tests/data/gpt2", "tests/data/gpt2", "--tokens", "1,2", "--ablate", "L1F3@0"},
                 "a feature, L1F3@0, of several models");
}

// Labels of features that were others would be wrong without a word.
TEST(TraceVerb, RefusesDescriptionsOfOtherTranscoders) {
  const ScratchFolder scratch;
  write_transcoders(scratch / "tc", model_hash(fs::path("tests/data/gpt2")));
  Descriptions descriptions;
  descriptions.layers.assign(3, std::vector<FeatureDescription>(23));
  save_descriptions(scratch / "tc", descriptions);
  expect_refusal({"trace", "tests/data/gpt2", "--tokens", "1,2", "--transcoder", scratch / "tc"},
                 "descriptions of other transcoders");
}

TEST(TraceVerb, RefusesBadPromptFilesAndMixedOptions) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "bad.jsonl") << R"({"prompt": "a b"})"
                                       << "\n"
                                       << R"({"text": 3})"
                                       << "\n";
  expect_refusal({"trace", "openwork-8m", "--prompts", scratch / "bad.jsonl"}, "a line without \"prompt\"");
  std::ofstream(scratch / "place.jsonl") << R"({"prompt": "a b", "from": [1]})"
                                         << "\n";
  expect_refusal({"trace", "openwork-8m", "--prompts", scratch / "place.jsonl"},
                 "neither a position nor a word");
  std::ofstream(scratch / "good.jsonl") << R"({"prompt": "a b"})"
                                        << "\n";
  expect_refusal({"trace", "openwork-8m", "--prompts", scratch / "good.jsonl", "--out", scratch / "t.svg"},
                 "many prompts with an option for one");
}

}  // namespace
}  // namespace openwork
