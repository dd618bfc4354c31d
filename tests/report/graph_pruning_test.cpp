// Graph files: written short, read back, made smaller, and refused where they are none.
#include "report/graph_pruning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include "base/error.h"
#include "io/json.h"
#include "report/graph_text.h"

namespace openwork {
namespace {

using Json = nlohmann::json;

Json make_node(const std::string& id, const std::string& layer, int64_t token, const std::string& type,
               double own, double cumulative) {
  return {{"node_id", id},        {"layer", layer},          {"ctx_idx", token},     {"feature_type", type},
          {"own_influence", own}, {"influence", cumulative}, {"activation", nullptr}};
}

// Two tokens; a strong feature and a weak one of the first are read by the answer at the second.
Json make_file() {
  Json answer = make_node("3_9_1", "3", 1, "logit", 1, 0);
  answer.update({{"clerp", "Output \"b\" (p=0.500)"}, {"token_prob", 0.5}, {"influence", nullptr}});
  const Json supernode = {{"position", 0},
                          {"layers", {0, 1}},
                          {"influence", 1.0},
                          {"effect", 3.25},
                          {"about", {"x"}},
                          {"says", Json::array()},
                          {"nodes", {"L0F1@0", "L1F2@0"}},
                          {"fed", Json::array()}};
  const Json score = {{"entry", "L1H0:1<-0"},
                      {"score", 6.0},
                      {"queries", {"L0F1@0", nullptr}},
                      {"keys", {"L1F2@0", "L0F1@0"}},
                      {"weights", {{1.0, 2.0}, {1.5, 1.5}}}};
  return {
      {"metadata",
       {{"slug", "whole"},
        {"scan", "m"},
        {"prompt", "a b"},
        {"prompt_tokens", {"a", " b"}},
        {"node_threshold", 1.0},
        {"pruning_settings", {{"node_threshold", 1.0}, {"edge_threshold", 1.0}}},
        {"openwork",
         {{"title", "model"},
          {"layers", 2},
          {"heads", 2},
          {"worth", nullptr},
          {"supernodes", {supernode}},
          {"query_key", {score}}}}}},
      {"qParams",
       {{"supernodes", {{"both", "0_1_0", "1_2_0"}, {"weak", "1_2_0"}}},
        {"pinnedIds", {"1_2_0", "0_1_0"}},
        {"clickedId", "1_2_0"}}},
      {"nodes",
       {make_node("E_4_0", "E", 0, "embedding", 1.0, 0.5), make_node("E_5_1", "E", 1, "embedding", 0.0, 1.0),
        make_node("0_1_0", "0", 0, "cross layer transcoder", 0.9, 0.95),
        make_node("1_2_0", "1", 0, "cross layer transcoder", 0.1, 1.0), answer}},
      {"links",
       {{{"source", "E_4_0"}, {"target", "0_1_0"}, {"weight", 2.0}},
        {{"source", "E_4_0"}, {"target", "1_2_0"}, {"weight", 1.0}},
        {{"source", "0_1_0"},
         {"target", "3_9_1"},
         {"weight", static_cast<double>(0.9F)},
         {"heads", {{{"layer", 1}, {"head", 0}, {"weight", 0.61234567}}, {1, 1, 0.25}}},
         {"other_heads", 0.0376543299}},
        {{"source", "1_2_0"}, {"target", "3_9_1"}, {"weight", -0.1}}}}};
}

Json prune(const Json& file, double nodes) {
  return prune_stored_graph(file, read_kept_trace(file, "whole"), {nodes, {}}, "tests/data/README.md");
}

TEST(GraphText, WritesLinksAndHeadsShortAndTheRestAsItIs) {
  const Json file = make_file();
  const std::string text = graph_text(file);
  EXPECT_THAT(text, testing::HasSubstr(R"({"heads":[[1,0,0.612346],[1,1,0.25]],"other_heads":0.0376543,)"
                                       R"("source":"0_1_0","target":"3_9_1","weight":0.9})"));
  Json written = parse_json(text, "text"), wanted = file;
  written.erase("links"), wanted.erase("links");
  EXPECT_EQ(written, wanted);
  const KeptTrace before = read_kept_trace(file, "f"), after = read_kept_trace(parse_json(text, "text"), "f");
  ASSERT_EQ(after.trace.graph.links.size(), 4u);
  for (size_t n = 0; n < 4; ++n)
    EXPECT_EQ(after.trace.graph.links[n].weight, before.trace.graph.links[n].weight)
        << "of float32, nothing is lost";
  EXPECT_EQ(after.trace.graph.links[2].heads.size(), 2u);
  EXPECT_EQ(graph_text(parse_json(text, "text")), text);
}

// JSON has no word for them: a file with `inf` in it would open nowhere.
TEST(GraphText, RefusesNumbersThatAreNotFinite) {
  const double infinite = std::numeric_limits<double>::infinity(), none = std::nan("");
  const auto expect_refused = [](const Json& file, const std::string& key) {
    EXPECT_THAT([&] { graph_text(file); }, testing::ThrowsMessage<Error>(testing::HasSubstr(
                                               "a number of the graph is not finite (" + key + ")")));
  };
  const Json whole = make_file();
  for (const double bad : {infinite, -infinite, none, 1e300}) {
    Json file = whole;
    file["links"][0]["weight"] = bad;
    expect_refused(file, "weight");
  }
  for (const double bad : {infinite, none}) {
    Json file = whole;
    file["links"][2]["heads"][0]["weight"] = bad;
    expect_refused(file, "heads");
    file = whole, file["links"][2]["other_heads"] = bad;
    expect_refused(file, "other_heads");
    file = whole, file["nodes"][2]["activation"] = bad;
    expect_refused(file, "activation");
    file = whole, file["metadata"]["openwork"]["query_key"][0]["weights"][1][0] = bad;
    expect_refused(file, "weights");
  }
}

TEST(GraphPruning, TakesNodesOutOfEverythingThatNamesThem) {
  const Json file = prune(make_file(), 0.9);
  ASSERT_EQ(file["nodes"].size(), 4u);
  EXPECT_EQ(file["links"].size(), 2u);
  EXPECT_EQ(file["qParams"]["supernodes"], Json::parse(R"([["both", "0_1_0"]])"));
  EXPECT_EQ(file["qParams"]["pinnedIds"], Json::parse(R"(["0_1_0"])"));
  EXPECT_EQ(file["qParams"]["clickedId"], "");
  const Json& record = file["metadata"]["openwork"];
  EXPECT_EQ(record["supernodes"][0]["nodes"], Json::parse(R"(["L0F1@0"])"));
  EXPECT_EQ(record["supernodes"][0]["left_out"], 1);
  EXPECT_EQ(record["supernodes"][0]["effect"], 3.25) << "what it was in the whole graph";
  EXPECT_EQ(record["query_key"][0]["keys"], Json::parse(R"(["L0F1@0", null])"));
  EXPECT_EQ(record["query_key"][0]["weights"], Json::parse("[[2.0, 1.0], [1.5, 1.5]]")) << "still sums to 6";
  EXPECT_EQ(read_kept_trace(file, "f").trace.supernodes[0].left_out, 1);
}

TEST(GraphPruning, IsRecordedStepByStep) {
  const Json once = prune(make_file(), 0.9), twice = prune(once, 0.95);
  const Json& steps = twice["metadata"]["openwork"]["pruned"];
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0]["from"]["links"], 4);
  EXPECT_EQ(steps[0]["links"], 2);
  EXPECT_NEAR(steps[0]["influence"].get<double>(), 0.95, 1e-12);
  EXPECT_EQ(steps[1]["from"]["node_threshold"], 0.9);
  EXPECT_EQ(steps[1]["node_threshold"], 0.9) << "0.95 is more than was kept";
  EXPECT_EQ(twice["nodes"], once["nodes"]);
  EXPECT_EQ(twice["links"], once["links"]);
  EXPECT_EQ(twice["metadata"]["node_threshold"], 0.9);
  EXPECT_EQ(describe_pruning(once), "4 of 5 nodes, 2 of 4 links, 95.0 % of the influence");
  EXPECT_THAT(read_kept_trace(once, "f").pruned, testing::HasSubstr("to 0.9 of the influence"));
}

void expect_refused(const Json& file, const std::string& message) {
  try {
    read_kept_trace(file, "f.json");
    FAIL() << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(error.what(), testing::HasSubstr(message));
  }
}

TEST(KeptGraph, RefusesLayersThatNoModelHas) {
  Json many = make_file(), high = make_file();
  many["metadata"]["openwork"]["layers"] = std::numeric_limits<int64_t>::max();
  expect_refused(many, "layer 9223372036854775807");
  high["nodes"][1]["layer"] = "9223372036854775807";
  expect_refused(high, "layer 9223372036854775807");
}

TEST(KeptGraph, RefusesLinksThatNoTraceHas) {
  Json down = make_file(), token = make_file(), large = make_file(), protocol = make_file();
  down["links"][0]["source"] = "1_2_0";
  expect_refused(down, "a link from L1F2@0 to L0F1@0");
  token["links"][0]["target"] = "E_5_1";
  expect_refused(token, "a link from T@0 to T@1");
  large["links"][0]["weight"] = 1e300;
  expect_refused(large, "a weight beyond float32");
  protocol["metadata"]["protocol"] = {{"program", "openwork"}};
  expect_refused(protocol, "models");
}

// Whatever has become of a file, it is read and pruned, or refused in one line.
TEST(KeptGraph, SurvivesFilesWithAnyBytesChanged) {
  const std::string whole = graph_text(make_file());
  std::mt19937 random(7);
  const std::string_view pieces[] = {"null", "-1", "1e99", "[]", "{}", "\"", "9", ",", "0", "E", "_", "true"};
  int read = 0;
  for (int n = 0; n < 3000; ++n) {
    std::string text = whole;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      text.replace(random() % text.size(), random() % 3, pieces[random() % std::size(pieces)]);
    try {
      prune(parse_json(text, "text"), 0.9);
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << text;
    }
  }
  EXPECT_GT(read, 100) << "some changes do no harm";
}

}  // namespace
}  // namespace openwork
