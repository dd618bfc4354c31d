// What is decided about a trace before and after the graph: which tokens are asked about, how entries are
// written, how models are compared.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "analyze/trace/trace_prompts.h"
#include "analyze/trace_fixtures.h"
#include "base/error.h"
#include "model/load.h"

namespace openwork {
namespace {

TEST(MovedFrom, CountsHeadSharesByTheirPartInTheAnswer) {
  TraceGraph graph;
  graph.ids = {1, 2, 3};
  graph.nodes = {{.kind = TraceNodeKind::kEmbedding, .position = 0},
                 {.kind = TraceNodeKind::kEmbedding, .position = 1},
                 {.kind = TraceNodeKind::kBias, .layer = 0, .position = 1},
                 {.kind = TraceNodeKind::kLogit, .position = 2, .feature = 7, .probability = 0.5}};
  graph.links = {{.source = 0, .target = 3, .weight = 1, .heads = {{{0, 0}, 2}, {{0, 1}, -1}}},
                 {.source = 1, .target = 3, .weight = -1, .heads = {{{1, 0}, -1}}},
                 {.source = 2, .target = 3, .weight = 9, .heads = {{{1, 0}, 9}}}};
  const std::vector<MovedFrom> moved = find_moved(graph, 2);
  ASSERT_EQ(moved.size(), 2u);
  EXPECT_EQ(moved[0].position, 0);
  EXPECT_DOUBLE_EQ(moved[0].share, 0.75) << "absolute shares; biases do not count";
  EXPECT_EQ(choose_source(moved, 1, 2), 1) << "the sink is left aside";
  EXPECT_EQ(choose_source(moved, 2, 2), 0) << "unless there is no other";
  EXPECT_EQ(choose_source({}, 1, 2), 1);
}

TEST(TraceNode, IsReadAsItIsWritten) {
  for (const char* name : {"L3F512@7", "M3@7", "E0@0", "T@12"}) {
    const std::optional<TraceNode> node = parse_trace_node(name);
    ASSERT_TRUE(node.has_value()) << name;
    EXPECT_EQ(node->name(), name);
  }
  for (const char* name :
       {"", "@7", "L3@7", "F3@7", "T3@7", "B3@7", "M@7", "M-1@7", "L3F@7", "M3@7@8", "M3@ 7"})
    EXPECT_FALSE(parse_trace_node(name).has_value()) << name;
}

// A normaliser may shorten a text: words are found as its tokens spell them.
TEST(TracePrompt, WordsAreFoundBehindANormaliser) {
  const nlohmann::json characters = {{"a", 0}, {"b", 1}, {"c", 2}, {"-", 3}};
  const nlohmann::json tokenizer = {
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", "--"}}}, {"content", "-"}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", characters}, {"merges", nlohmann::json::array()}}}};
  TracedModel traced = tiny_traced();
  traced.tokenizer = Tokenizer::from_json(tokenizer, "test");
  const std::string text = "a--b--c";
  const std::vector<int32_t> ids = traced.tokenizer->encode(text);
  ASSERT_EQ(ids, (std::vector<int32_t>{0, 3, 1, 3, 2}));
  const TracePrompt prompt = read_trace_prompt(traced, {ids.begin(), ids.end()}, text, {{}, "b", "c"});
  EXPECT_EQ(prompt.from, 2);
  EXPECT_EQ(prompt.to, 4);
}

// The graph's nodes are counted while it is made: none was.
TEST(TracePrompt, ChangesThatCannotBeMadeAreRefusedBeforeTheGraph) {
  TracedModel traced = tiny_traced({.threshold = 1e6});
  const TracePrompt prompt{{3, 9, 4}, {}, "", {}, {}};
  const auto refuse = [&](const std::string& node, const std::string& why) {
    PromptTraceSettings settings;
    settings.changes = {{"T@1", 0}, {node, 0}};
    bool attributed = false;
    try {
      trace_prompt(traced, prompt, settings, [&](int64_t, int64_t) { attributed = true; });
      ADD_FAILURE() << node << " was changed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
    EXPECT_FALSE(attributed) << node;
  };
  refuse("L1F3@3", "no L1F3@3 in a prompt of 3 tokens");
  refuse("L1F24@0", "its layers have 24 features");
  refuse("M1@0", "traced with transcoders");
  refuse("L1F3@0", "name a feature that is active there");
}

TEST(PatternEntry, IsReadAsItIsWritten) {
  const auto entry = parse_pattern_entry("L5H1:8<-5");
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->head, (HeadPlace{5, 1}));
  EXPECT_EQ(entry->name(), "L5H1:8<-5");
  for (const char* bad : {"", "L5H1", "L5H1:8", "L5H1:5<-8", "L5H1:-1<-0", "5H1:8<-5", "L5H1:8<-5x", "<-:"})
    EXPECT_FALSE(parse_pattern_entry(bad).has_value()) << bad;
}

TEST(Interventions, AgreeWhereTheSignIsTheSame) {
  const std::vector<TraceIntervention> changes = {
      {"a", 0, -1, -3, -1, -2}, {"b", 0, 1, -2, 1, -1}, {"c", 0, 2, 5, 2, 3}};
  const InterventionAgreement agreement = compare_interventions(changes);
  EXPECT_EQ(agreement.same_sign, 2);
  EXPECT_EQ(agreement.count, 3);
  EXPECT_GT(agreement.correlation, 0.5);
  EXPECT_DOUBLE_EQ(agreement.rank, 1) << "by all paths";
  EXPECT_DOUBLE_EQ(agreement.direct_rank, 1);
  EXPECT_TRUE(std::isnan(compare_interventions({changes[0]}).correlation));
}

ModelTrace answer(const std::string& text) {
  ModelTrace trace;
  trace.graph.ids = {4, 5};
  trace.graph.nodes = {{.kind = TraceNodeKind::kEmbedding}, {.kind = TraceNodeKind::kLogit, .feature = 9}};
  trace.labels = {"a", text};
  trace.explanation = HeadExplanation{.from = 0, .to = 1, .heads = {}, .signed_heads = {}, .flows = {}};
  return trace;
}

TEST(ModelTraces, HaveOneAnswerWhereItsTextIsTheSame) {
  EXPECT_TRUE(have_one_answer({answer(" time")}));
  EXPECT_TRUE(have_one_answer({answer(" time"), answer(" time")}));
  EXPECT_FALSE(have_one_answer({answer(" time"), answer(" day")}));
}

TEST(ModelTraces, AskAboutTheSameTwoTokensWhereTheTokensAreTheSame) {
  TracePrompt same, other, own;
  same.ids = own.ids = {4, 5}, other.ids = {4, 6};
  own.from = 1;
  for (TracePrompt* prompt : {&same, &other, &own}) ask_as(answer("x"), *prompt);
  EXPECT_EQ(same.from, 0);
  EXPECT_FALSE(other.from.has_value());
  EXPECT_EQ(own.from, 1);
}

TEST(TracePrompts, AreTracedFromPlainSettings) {
  const TracedModel traced = attach_transcoders(load_model("tests/data/gpt2"), "tests/data/gpt2", "tiny");
  PromptTraceSettings settings;
  settings.changes = {{"L1H0", 0}};
  settings.scores = {*parse_pattern_entry("L1H1:3<-1")};
  const ModelTrace trace =
      trace_prompt(traced, read_trace_prompt(traced, {3, 9, 4, 11, 2}, "", {{"7"}, "1", "4"}), settings);
  EXPECT_EQ(trace.title, "tiny");
  EXPECT_EQ(trace.target().feature, 7);
  EXPECT_EQ(trace.target_text(), "7") << "no tokenizer: its number";
  EXPECT_EQ(trace.explanation->from, 1);
  EXPECT_EQ(trace.explanation->to, 4);
  EXPECT_EQ(trace.interventions.size(), 1u);
  EXPECT_EQ(trace.scores.front().name(), "L1H1:3<-1");
  settings.scores = {*parse_pattern_entry("L9H1:3<-1")};
  EXPECT_THROW(trace_prompt(traced, read_trace_prompt(traced, {3, 9, 4}, "", {}), settings), Error);
}

TEST(TracePrompts, RatiosPairThePromptsOfBothModels) {
  const auto needs = [](std::vector<int64_t> heads) {
    std::vector<PromptHeads> prompts(heads.size());
    for (size_t n = 0; n < heads.size(); ++n) prompts[n].needed = heads[n];
    return prompts;
  };
  const HeadsByPrompt dense = summarise_heads("dense", needs({2, 4, 60}), 1),
                      sparse = summarise_heads("sparse", needs({1, 2, 30}), 1);
  EXPECT_DOUBLE_EQ(dense.mean, 22);
  EXPECT_LT(dense.interval.low, dense.interval.high);
  const HeadRatio ratio = compare_heads(dense, sparse, 1);
  EXPECT_DOUBLE_EQ(ratio.ratio, 2);
  EXPECT_DOUBLE_EQ(ratio.interval.low, 2) << "every draw has both models' counts of the same prompts";
  EXPECT_DOUBLE_EQ(ratio.interval.high, 2);
}

}  // namespace
}  // namespace openwork
