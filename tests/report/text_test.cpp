// The lines that verbs print, made of records.
#include <gmock/gmock.h>

#include "report/ablation_text.h"
#include "report/captions.h"
#include "report/circuit_text.h"
#include "report/comparison_sections.h"
#include "report/evaluation_text.h"
#include "report/heads_figure.h"
#include "report/next_tokens_text.h"
#include "report/scatter_figure.h"
#include "report/suite_figure.h"
#include "report/suite_text.h"
#include "report/trace_files.h"
#include "report/trace_prompts_text.h"

namespace openwork {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A model with one test of one bin.
SuiteModel suite_of(const std::string& name, const std::string& bin) {
  SuiteModel model{name};
  SuiteTestResult& test = model.tests.emplace_back();
  test.name = "copy";
  SuiteBinResult& result = test.bins.emplace_back();
  result.name = bin, result.mean = 0.5, result.interval = {0.4, 0.6};
  return model;
}

TEST(SuiteText, HasADashWhereAModelLacksTheFirstOnesBin) {
  const std::vector<std::string> lines = format_suite({suite_of("dense", "8"), suite_of("sparse", "16")}, {});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[1], StartsWith("copy           8               0.500 [0.400, 0.600]"));
  EXPECT_THAT(lines[1], testing::EndsWith(" -"));
  EXPECT_THAT(lines[2], StartsWith("p: against dense"));
}

TEST(SuiteText, PutsTheCorrectedPBesideTheModelItIsOf) {
  SuiteDifference difference;
  difference.model = "sparse", difference.test = "copy", difference.bin = "8", difference.p_holm = 0.02;
  const std::vector<std::string> lines =
      format_suite({suite_of("dense", "8"), suite_of("sparse", "8")}, {difference});
  EXPECT_THAT(lines[1], testing::EndsWith("0.500 [0.400, 0.600] p 0.02"));
}

TEST(SuiteText, SaysWhyATestWasLeftOut) {
  SuiteModel model{"dense"};
  SuiteTestResult& test = model.tests.emplace_back();
  test.name = "last-word", test.left_out = "no --data";
  EXPECT_THAT(format_suite({model}, {}), testing::Contains("last-word      left out: no --data"));
}

TEST(EvaluationText, SaysThatOneDocumentGivesNoInterval) {
  Evaluation one;
  one.documents = 1;
  EXPECT_THAT(format_evaluation("dense", one), testing::Contains("  one document: no interval"));
  one.documents = 2;
  EXPECT_EQ(format_evaluation("dense", one).size(), 2u);
}

TEST(EvaluationText, NamesTheHeadsThatHaveHalfOfWhatIsKept) {
  Evaluation sparse;
  sparse.documents = 2, sparse.kept_edges = 0.15;
  sparse.heads = {{0.01, 0.4, 0}, {0.25, 0.04, 0.2}};  // half is 0.45
  EXPECT_EQ(sparse.fullest_heads(), (std::vector<HeadPlace>{{0, 1}, {1, 0}}));
  EXPECT_THAT(format_evaluation("sparse", sparse),
              testing::Contains("  half of it in 2 of 6 heads: L0H1 40 %, L1H0 25 %"));
  sparse.heads = {{0.1, 0.2}, {0.3, 0}};  // exactly half
  EXPECT_EQ(sparse.fullest_heads(), (std::vector<HeadPlace>{{1, 0}}));
  sparse.heads = {{0, 0}}, sparse.kept_edges = 0;
  EXPECT_TRUE(sparse.fullest_heads().empty());
  EXPECT_EQ(format_evaluation("closed", sparse).size(), 2u);
  sparse.heads = {{1, 1}}, sparse.kept_edges = 1;
  EXPECT_TRUE(sparse.fullest_heads().empty());
}

TEST(EffectsText, ListsTheLargestEffectsFirstAndNoMoreThanAskedFor) {
  AblationRecord record;
  for (int64_t head = 0; head < 3; ++head) {
    PartEffect& effect = record.effects.emplace_back();
    effect.part = head_part(0, head);
    effect.effect = static_cast<double>(head);
  }
  const std::vector<std::string> lines = format_effects(record, 2);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], HasSubstr("(mean ablation)"));
  EXPECT_THAT(lines[2], StartsWith("L0H2"));
  EXPECT_THAT(lines[3], StartsWith("L0H1"));
}

// Of four heads L0H0 and L1H1 are blank; the first `shown` are shown.
ModelHeads heads_of(size_t shown, bool blanks_shown) {
  ModelHeads model;
  model.layers = model.heads = 2, model.looked_at = 4;
  model.blanks_shown = blanks_shown;
  model.blank = {{0, 0}, {1, 1}};
  for (int64_t n = 0; n < 4; ++n) {
    CollectedHead head{{n / 2, n % 2}, {}, {}, 0, {}};
    head.summary.mass = n == 0 || n == 3 ? 0 : 1;
    if ((blanks_shown || !head.summary.blank()) && model.shown.size() < shown) model.shown.push_back(head);
  }
  return model;
}

TEST(HeadsText, CountsTheBlankHeadsThatAreShownOrAllThatAreLeftOut) {
  EXPECT_EQ(describe_heads(heads_of(3, true), false), "3 of 4 heads; 1 of them blank; 1 more not shown");
  EXPECT_EQ(describe_heads(heads_of(1, false), false), "1 of 4 heads; 2 blank, left out; 1 more not shown");
}

TEST(HeadsText, SaysHowManyOfTheNeededHeadsAreShown) {
  ModelHeads model = heads_of(2, true);
  model.looked_at = 2;
  model.task = TaskNeeds{.task = "copy", .threshold = 0.9, .needed = 3};
  EXPECT_EQ(describe_heads(model, true),
            "3 of 4 heads are needed for 90 % of the copy task, 2 of them shown; 1 of them blank");
  model.task->needed = 2;
  EXPECT_EQ(describe_heads(model, true),
            "2 of 4 heads are needed for 90 % of the copy task; 1 of them blank");
}

TEST(HeadsFigure, IsDrawnWithoutAnyHead) {
  ModelHeads model = heads_of(0, true);
  model.looked_at = 0, model.blank.clear();
  const draw::HeadGrid grid = make_head_grid({model}, {}, {});
  EXPECT_THAT(draw::render_figure(draw::draw_head_grid(grid), draw::Format::kSvg), HasSubstr("</svg>"));
}

TEST(ScatterText, SaysNoneWhereAHeadIsConstant) {
  HeadScatter scatter;
  scatter.places = {{0, 0}, {5, 1}};
  scatter.values = {{0.5f}, {0.5f}};
  scatter.pearson = {{1, std::nan("")}, {std::nan(""), 1}}, scatter.spearman = {{1, 0.25}, {0.25, 1}};
  EXPECT_EQ(format_scatter(scatter).at(1), "  L0H0    L5H1    Pearson   none  Spearman +0.250");
}

// A model that needs more does not need "0.80 times fewer".
TEST(RatioText, SaysTimesAsManyWhereAModelNeedsMore) {
  ModelRatio ratio;
  ratio.dense = "A", ratio.sparse = "B";
  ratio.sizes.at.resize(kLevels.size());
  ratio.sizes.at_threshold = {2, {1.6, 2.5}};
  EXPECT_EQ(format_circuit_ratio(ratio, {}, 1)[0],
            "B needs 2.00 times fewer than A at 90 % faithfulness, 95 % [1.60, 2.50], 1 seed");
  ratio.sizes.at_threshold = {0.8, {0.5, 1.25}};
  EXPECT_EQ(format_circuit_ratio(ratio, {}, 1)[0],
            "B needs 1.25 times as many as A at 90 % faithfulness, 95 % [0.80, 2.00], 1 seed");
  EXPECT_THAT(format_circuit_ratio(ratio, {}, 1)[1], StartsWith("  sizes, A over B: 50 % "));

  EXPECT_EQ(format_ratio({"A", "B", 2, {1.6, 2.5}}),
            "B needs 2.00 times fewer heads than A, 95 % [1.60, 2.50]");
  EXPECT_EQ(format_ratio({"A", "B", 0.8, {0.5, 1.25}}),
            "B needs 1.25 times as many heads as A, 95 % [0.80, 2.00]");

  ComparisonRecord page;
  TaskRecord& task = page.tasks.emplace_back();
  task.models.resize(3);
  task.models.front().name = "A", task.models.back().name = "B";
  task.ratio = 0.8, task.ratio_interval = {0.5, 1.25};
  EXPECT_THAT(tasks_section(page), HasSubstr("1.2 times as many heads in B as in A (95 % [0.8, 2.0])"));
}

TEST(Captions, CountOneAsOne) {
  EXPECT_EQ(describe_prompts({}, 1, 1), "1 token");
  EXPECT_EQ(describe_prompts({}, 2, 1), "mean of 2 prompts of 1 token");
  EXPECT_EQ(describe_lengths({7}), "1 prompt of 7 tokens");
  EXPECT_EQ(describe_lengths({7, 9, 8}), "3 prompts of 7 to 9 tokens");
  HeadsByPrompt one;
  one.prompts.resize(1);
  EXPECT_THAT(format_mean(one, 0.8), testing::EndsWith(", 1 prompt"));
}

// Two folders that are there and have one last name.
const std::vector<std::string> kAlike = {"src/text", "tests/text"};

TEST(Captions, KeepModelsOfOneFolderNameApart) {
  nlohmann::json protocol = {{"program", "openwork"}, {"device", "cpu"}, {"dtype", "fp32"},
                             {"bos", "auto"},         {"seed", 0},       {"models", nlohmann::json::array()}};
  for (const std::string& name : kAlike)
    protocol["models"].push_back({{"name", name}, {"sha256", "0123456789abcdef"}});
  EXPECT_THAT(describe_protocol(protocol),
              HasSubstr("; src/text 0123456789ab; tests/text 0123456789ab; cpu"));
  protocol["models"].erase(1);
  EXPECT_THAT(describe_protocol(protocol), HasSubstr("; text 0123456789ab; cpu"));

  std::vector<ModelHeads> heads(2);
  std::vector<HeadScatter> scatters(2);
  for (size_t n = 0; n < 2; ++n) heads[n].name = scatters[n].name = kAlike[n];
  heads[1].gated = scatters[1].gated = true;
  HeadsLook look;
  look.columns = 2;
  const draw::HeadGrid grid = make_head_grid(heads, look, {});
  const draw::ScatterMatrix matrix = make_scatter_matrix(scatters, "", "");
  for (const auto& [first, second] : {std::pair(grid.blocks[0].title, grid.blocks[1].title),
                                      std::pair(matrix.blocks[0].title, matrix.blocks[1].title)}) {
    EXPECT_EQ(first, "src/text");
    EXPECT_EQ(second, "tests/text (gated)");
  }
}

TEST(SuiteFigure, KeepsModelsOfOneFolderNameApart) {
  std::vector<SuiteModel> models = {suite_of(kAlike[0], "8"), suite_of(kAlike[1], "8")};
  for (SuiteModel& model : models) {
    model.tests[0].axis = "distance";
    model.tests[0].bins[0].at = 8;
  }
  const auto render = [&] { return render_figure(draw_suite(models, ""), draw::Format::kPng); };
  const std::string apart = render();
  EXPECT_TRUE(render() == apart);
  models[1].name = kAlike[0];
  EXPECT_FALSE(render() == apart) << "the legend says which is which";
}

TEST(NextTokensText, NumbersTheRowsFromOne) {
  NextToken token;
  token.id = 7, token.probability = 0.25;
  const auto lines = format_next_tokens({token}, [](int64_t) { return std::string(" the"); });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[1], StartsWith("  1   25.000 %"));
}

TEST(TraceFiles, AreNamedAfterTheirModelsWhereThereAreSeveral) {
  EXPECT_EQ(name_for_model("out/graph.json", "org/dense", 1), "out/graph.json");
  EXPECT_EQ(name_for_model("out/graph.json", "org/dense", 2), "out/graph-org-dense.json");
}

}  // namespace
}  // namespace openwork
