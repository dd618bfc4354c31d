// A traced prompt worked out by hand, as the figure's panel and as the JSON of public viewers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "report/trace_comparison.h"
#include "report/trace_figure.h"
#include "report/trace_graph.h"
#include "transcode/descriptions.h"

namespace openwork {
namespace {

using testing::ElementsAre;

// Two tokens, four layers: the embedding of the first makes a feature there; head L2H1 carries it to the
// second token's logit, which an MLP error and a bias push down.
TraceGraph make_graph() {
  TraceGraph graph;
  graph.tokens = {"large", " is"}, graph.ids = {40, 41};
  graph.layers = 4, graph.heads = 2;
  graph.nodes = {
      {.kind = TraceNodeKind::kEmbedding,
       .layer = -1,
       .position = 0,
       .feature = 40,
       .influence = 0.3,
       .cumulative = 0.7},
      {.kind = TraceNodeKind::kEmbedding,
       .layer = -1,
       .position = 1,
       .feature = 41,
       .influence = 0.1,
       .cumulative = 1},
      {.kind = TraceNodeKind::kFeature,
       .layer = 1,
       .position = 0,
       .feature = 77,
       .value = 2.5,
       .influence = 0.4,
       .cumulative = 0.4},
      {.kind = TraceNodeKind::kError, .layer = 3, .position = 1, .influence = 0.15, .cumulative = 0.85},
      {.kind = TraceNodeKind::kMlp, .layer = 0, .position = 1, .influence = 0.04, .cumulative = 0.99},
      {.kind = TraceNodeKind::kBias, .layer = 3, .position = 1, .influence = 0.05, .cumulative = 0.95},
      {.kind = TraceNodeKind::kLogit,
       .layer = 4,
       .position = 1,
       .feature = 90,
       .value = 5,
       .influence = 1,
       .probability = 0.6},
      {.kind = TraceNodeKind::kLogit,
       .layer = 4,
       .position = 1,
       .feature = 91,
       .value = 4,
       .influence = 1,
       .probability = 0.2}};
  graph.links = {{.source = 0, .target = 2, .weight = 1.5, .heads = {}},
                 {.source = 2, .target = 6, .weight = 3, .heads = {{{2, 1}, 4}, {{3, 0}, -1}}},
                 {.source = 3, .target = 6, .weight = -1, .heads = {}},
                 {.source = 5, .target = 6, .weight = -0.5, .heads = {}},
                 {.source = 4, .target = 7, .weight = 2, .heads = {}},
                 {.source = 1, .target = 4, .weight = 1, .heads = {}}};
  return graph;
}

const NodeLabels kLabels = {"large", " is", " big", "", "", "", " small", " tiny"};

// The part of JSON Schema that the viewers' schemas use.
bool is_of_type(const nlohmann::json& value, const std::string& type) {
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.is_string()
         : type == "integer" ? value.is_number_integer()
         : type == "number"  ? value.is_number()
         : type == "null"    ? value.is_null()
                             : value.is_boolean();
}

void expect_valid(const nlohmann::json& value, const nlohmann::json& schema, const std::string& where) {
  if (schema.contains("type")) {
    const nlohmann::json types =
        schema["type"].is_array() ? schema["type"] : nlohmann::json::array({schema["type"]});
    EXPECT_TRUE(
        std::any_of(types.begin(), types.end(), [&](const auto& type) { return is_of_type(value, type); }))
        << where << " is " << value.dump().substr(0, 80);
  }
  for (const auto& key : schema.value("required", nlohmann::json::array()))
    EXPECT_TRUE(value.contains(key)) << where << " lacks " << key;
  if (value.is_object()) {
    const nlohmann::json parts = schema.value("properties", nlohmann::json::object());
    for (const auto& [key, part] : parts.items()) {
      if (value.contains(key)) expect_valid(value[key], part, where + "." + key);
    }
  }
  if (value.is_array() && schema.contains("items")) {
    for (size_t n = 0; n < value.size(); ++n)
      expect_valid(value[n], schema["items"], where + "[" + std::to_string(n) + "]");
  }
}

nlohmann::json read_schema(const std::string& name) {
  return nlohmann::json::parse(std::ifstream("tests/data/schemas/" + name));
}

nlohmann::json make_json(const TraceGraph& graph = make_graph()) {
  const TraceGraphOrigin origin{.slug = "large",
                                .scan = "openwork-8m",
                                .prompt = "large is",
                                .program = "openwork",
                                .version = "0.1.0",
                                .feature_url = "",
                                .created_ms = 5,
                                .max_nodes = 100,
                                .protocol = {{"seed", 0}}};
  return make_trace_graph(graph, origin, kLabels);
}

TEST(TraceGraphJson, IsWhatTheViewersSchemaAsksFor) {
  const nlohmann::json graph = make_json(), schema = read_schema("neuronpedia-graph-schema.json");
  expect_valid(graph, schema, "graph");
  EXPECT_EQ(graph["metadata"]["prompt_tokens"], (nlohmann::json{"large", " is"}));
  EXPECT_EQ(graph["metadata"]["node_threshold"], 0.8);
  EXPECT_EQ(graph["metadata"]["info"]["generator"]["name"], "openwork");
  EXPECT_EQ(graph["metadata"]["generation_settings"]["max_n_logits"], 2);
}

TEST(TraceGraphJson, EveryNodeHasItsOwnIdAndEveryLinkTwoNodes) {
  const nlohmann::json graph = make_json();
  std::set<std::string> ids, viewer_ids;
  for (const nlohmann::json& node : graph["nodes"]) {
    EXPECT_TRUE(ids.insert(node["node_id"]).second) << node["node_id"];
    EXPECT_TRUE(viewer_ids.insert(node["jsNodeId"]).second) << node["jsNodeId"];
  }
  ASSERT_EQ(graph["links"].size(), 6u);
  for (const nlohmann::json& link : graph["links"]) {
    EXPECT_TRUE(ids.contains(link["source"])) << link["source"];
    EXPECT_TRUE(ids.contains(link["target"])) << link["target"];
  }
}

TEST(TraceGraphJson,
     AnErrorOfLayerThreeIsNotFeatureThreeOfLayerZero) {  // as it is where ids are 0_LAYER_POSITION
  TraceGraph graph = make_graph();
  const TraceNode feature{.kind = TraceNodeKind::kFeature, .layer = 0, .position = 1, .feature = 3};
  EXPECT_NE(graph_node_id(graph, feature), graph_node_id(graph, graph.nodes[3]));
}

TEST(TraceGraphJson, NodesSayWhatViewersLookFor) {
  const nlohmann::json nodes = make_json()["nodes"];
  EXPECT_EQ(nodes[2]["node_id"], "1_77_0");
  EXPECT_EQ(nodes[2]["feature"], pair_index(1, 77));
  EXPECT_EQ(pair_index(3, 77), 3317);
  EXPECT_EQ(nodes[2]["feature_type"], "cross layer transcoder");
  EXPECT_EQ(nodes[2]["activation"], 2.5);
  EXPECT_EQ(nodes[2]["clerp"], " big");
  EXPECT_EQ(nodes[2]["name"], "L1F77@0");
  EXPECT_EQ(nodes[0]["layer"], "E");
  EXPECT_EQ(nodes[0]["influence"], 0.7) << "the cumulative one, which viewers prune by";
  EXPECT_EQ(nodes[3]["feature_type"], "mlp reconstruction error");
  EXPECT_EQ(nodes[4]["clerp"], "MLP 0");
  EXPECT_EQ(nodes[6]["clerp"], "Output \" small\" (p=0.600)");
  EXPECT_EQ(nodes[6]["layer"], "5");
  EXPECT_EQ(nodes[6]["is_target_logit"], true);
  EXPECT_EQ(nodes[7]["is_target_logit"], false);
}

TEST(TraceGraphJson, HeadsOfALinkSumToIt) {
  const nlohmann::json link = make_json()["links"][1];
  ASSERT_EQ(link["heads"].size(), 2u);
  EXPECT_EQ(link["heads"][0], (nlohmann::json{{"layer", 2}, {"head", 1}, {"weight", 4.0}}));
  EXPECT_DOUBLE_EQ(link["heads"][0]["weight"].get<double>() + link["heads"][1]["weight"].get<double>(),
                   link["weight"].get<double>());
  EXPECT_FALSE(make_json()["links"][0].contains("heads")) << "within a token nothing is moved";
}

TEST(TraceGraphJson, OfVeryManyLinksHasTheLargestHeadsAndTheSumOfTheOthers) {
  TraceGraph graph = make_graph();
  graph.layers = 40, graph.heads = 50;
  TraceLink link = graph.links[1];
  link.heads.clear(), link.weight = 0;
  for (int64_t n = 0; n < 2000; ++n) {
    link.heads.push_back({{n / 50, n % 50}, 1.0 / static_cast<double>(n + 1)});
    link.weight += link.heads.back().weight;
  }
  graph.links.assign(2000, link);  // 4 million shares
  const nlohmann::json written = make_json(graph)["links"][7];
  ASSERT_EQ(written["heads"].size(), 500u);
  double sum = written["other_heads"];
  for (const nlohmann::json& head : written["heads"]) sum += head["weight"].get<double>();
  EXPECT_NEAR(sum, link.weight, 1e-6);
  EXPECT_EQ(written["heads"][1], (nlohmann::json{{"layer", 0}, {"head", 1}, {"weight", 0.5}}));
}

TEST(TraceFigure, SaysHowManyHeadsInOneLine) {
  HeadExplanation explanation{.from = 5,
                              .to = 8,
                              .share = 0.8,
                              .needed = 3,
                              .heads = {{{11, 7}, 3}, {{10, 1}, 2}, {{9, 0}, 1}, {{1, 1}, 0.1}},
                              .signed_heads = {},
                              .flows = {}};
  EXPECT_EQ(explain_in_one_line(explanation, 5),
            "3 heads carry 80 % of key 5 -> query 8: L11H7, L10H1, L9H0");
  EXPECT_EQ(explain_in_one_line(explanation, 2), "3 heads carry 80 % of key 5 -> query 8: L11H7, L10H1, ...");
  explanation.needed = 1;
  EXPECT_EQ(explain_in_one_line(explanation, 2), "1 head carries 80 % of key 5 -> query 8: L11H7");
  EXPECT_EQ(explain_in_one_line(explanation, 2, {"a", "b", "c", "d", "e", " large", "f", "g", " is"}),
            "1 head carries 80 % of key 5 ·large -> query 8 ·is: L11H7");
}

ModelTrace make_trace(const std::string& title, const std::string& answer) {
  ModelTrace trace;
  trace.name = trace.title = title;
  trace.graph = make_graph();
  trace.labels = kLabels;
  trace.labels[6] = answer;
  trace.explanation = HeadExplanation{
      .from = 0, .to = 1, .needed = 1, .total = 4, .heads = {{{2, 1}, 4}}, .signed_heads = {}, .flows = {}};
  return trace;
}

TEST(TraceComparison, SaysWhereModelsAreTracedToDifferentAnswers) {
  const TraceRecord same =
      make_trace_record({make_trace("dense", " small"), make_trace("sparse", " small")}, 3, "", "");
  EXPECT_EQ(same.answers, "");
  const TraceRecord record =
      make_trace_record({make_trace("dense", " small"), make_trace("sparse", " little")}, 3, "", "");
  EXPECT_EQ(record.answers,
            "The models answer differently, and each is traced to its own answer: dense to ·small, sparse "
            "to ·little.");
  EXPECT_EQ(record.models[1].answer, "·little");
  EXPECT_EQ(record.models[1].target, 90);
  EXPECT_EQ(record.json[1]["targets"][0]["token"], " little");
  EXPECT_EQ(record.from, "large (0)");
}

TEST(TraceFigure, SaysWhatAGraphIsWorth) {
  TraceGraph graph = make_graph();
  graph.worth = TraceWorth{.replacement = 0.5,
                           .completeness = 0.75,
                           .error_share = 0.25,
                           .model_loss = 3,
                           .replaced_loss = 4.5,
                           .replaced_probability = 0.1};
  EXPECT_EQ(
      describe_worth(graph),
      "replacement score 0.500, completeness 0.750, 25.0 % of the influence ends in errors; the prompt's "
      "loss 3.000 nats, with all MLPs replaced 4.500; the answer's probability 60.00 %, replaced 10.00 %");
}

TEST(TraceFigure, DrawsSupernodesByTokenAndLayersWithAnswersOnTop) {
  const TraceGraph graph = make_graph();
  const draw::TracePanel panel = make_trace_panel({"model", &graph, {}, kLabels});
  EXPECT_THAT(panel.rows, ElementsAre("tokens", "layer 0", "layer 1", "layer 2", "layer 3", "answer"));
  ASSERT_EQ(panel.boxes.size(), 7u);  // two tokens, feature, error, MLP, two answers; no bias
  EXPECT_THAT(panel.boxes[2].lines, ElementsAre("on ·big", "L1F77"));
  EXPECT_THAT(panel.boxes[3].lines, ElementsAre("errors", "L3"));
  EXPECT_EQ(panel.boxes[2].row, 2);
  EXPECT_THAT(panel.boxes[5].lines, ElementsAre("·small", "60.0 %"));
}

TEST(TraceFigure, TellsTheStrongestMovesInWords) {
  const TraceGraph graph = make_graph();
  const draw::TracePanel panel = make_trace_panel({"model", &graph, {}, kLabels});
  EXPECT_EQ(tell_moves(panel, 3),
            "large (layer 1, on ·big) raises the answer ·small by L2H1 80 %, L3H0 20 %.");
  EXPECT_EQ(panel.caption, tell_moves(panel, 3));
}

TEST(TraceGraphJson, SupernodesStandWhereViewersLookForThem) {
  const TraceGraph graph = make_graph();
  TraceGraphOrigin origin;
  origin.supernodes = group_nodes(graph, kLabels, {});
  const nlohmann::json groups = make_trace_graph(graph, origin, kLabels)["qParams"]["supernodes"];
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0], (nlohmann::json{"on ' big'", "1_77_0"}));
  EXPECT_EQ(groups[1], (nlohmann::json{"errors of layers 3", "error_3_1"}));
}

TEST(TraceFigure, LinksAreSharesOfWhatReachesTheAnswer) {
  const TraceGraph graph = make_graph();
  const draw::TracePanel panel = make_trace_panel({"model", &graph, {}, kLabels});
  for (const draw::TraceMove& move : panel.moves) {
    if (panel.boxes[static_cast<size_t>(move.from)].column ==
        panel.boxes[static_cast<size_t>(move.to)].column)
      continue;
    // 3 of 3 + 1 + 0.5 into the first answer, which is 0.6 of 0.8 of what is asked about
    EXPECT_NEAR(move.weight, 3 / 4.5 * 0.75, 1e-12);
    EXPECT_THAT(move.heads, ElementsAre("L2H1 80 %", "L3H0 20 %"));
    return;
  }
  FAIL() << "nothing moves between tokens";
}

TEST(TraceFigure, LongPromptsKeepTheirStrongestGroups) {
  TraceGraph graph = make_graph();
  graph.nodes.clear(), graph.links.clear(), graph.tokens.assign(40, " a"), graph.ids.assign(40, 7),
      graph.layers = 30;
  for (int64_t n = 0; n < 200; ++n)
    graph.nodes.push_back({.kind = TraceNodeKind::kFeature,
                           .layer = n % 30,
                           .position = n % 40,
                           .feature = n,
                           .influence = 1.0 / static_cast<double>(n + 1)});
  const draw::TracePanel panel = make_trace_panel({"model", &graph, {}, {}});
  EXPECT_EQ(panel.rows.size(), 8u);  // tokens, six ranges of five layers, the answer
  EXPECT_EQ(panel.rows[1], "layers 0–4");
  EXPECT_EQ(panel.boxes.size(), 40u + 18u);
}

}  // namespace
}  // namespace openwork
