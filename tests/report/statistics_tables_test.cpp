// Statistics as files: what is in them, and what becomes of numbers that do not exist.
#include "report/statistics_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "report/statistics_figures.h"

namespace openwork {
namespace {

using testing::HasSubstr;

// Two layers of two heads; one blank head without an entropy.
ModelStatistics make_model(const std::string& name, bool gated) {
  ModelStatistics model;
  model.name = name;
  model.layers = model.heads = 2;
  model.gated = gated;
  model.prompt_tokens = {5, 9};
  for (int64_t n = 0; n < 4; ++n) {
    HeadRecord record;
    record.place = {n / 2, n % 2};
    for (double& value : record.mean.values) value = 0.25 * static_cast<double>(n);
    record.low = record.high = record.mean;
    record.kind = n == 0 ? HeadClass::kBlank : HeadClass::kSink;
    if (n == 0) record.mean[Statistic::kEntropy] = std::nan("");
    model.records.push_back(record);
  }
  model.redundancy = {0.9, {{{1, 2}, 0.93}}, 1, 2};
  model.by_prompt.assign(2, std::vector<HeadNumbers>(4));
  return model;
}

StatisticsReport make_report() {
  StatisticsReport report;
  report.models = {make_model("a \"dense\" one, really", false), make_model("sparse", true)};
  ComparisonRow row;
  row.key = "density", row.title = "prompt kept edges", row.dense = 1, row.sparse = 0.03,
  row.difference = -0.97, row.p = 1.0 / 10001, row.p_corrected = 6.0 / 10001;
  row.prompts = 2, row.dense_by_prompt = {1, 1}, row.sparse_by_prompt = {0.02, 0.04};
  report.comparisons = {{"dense", "sparse", {row}}};
  return report;
}

// A count per prompt is not the share over held-out text that is called kept edges everywhere.
TEST(StatisticsTables, CallsTheCountOfAPromptsEdgesWhatItIs) {
  const std::string text = make_markdown(make_report());
  EXPECT_THAT(text, HasSubstr("| prompt kept edges, count |"));
  EXPECT_THAT(make_csv(make_report()), HasSubstr(",kept,kept_low,kept_high,"));
}

TEST(StatisticsTables, JsonHasEveryStatisticOfEveryHead) {
  const nlohmann::json json = to_json(make_report());
  const nlohmann::json& model = json["models"][0];
  EXPECT_EQ(model["heads"].size(), 4u);
  for (const StatisticName& statistic : kStatistics)
    EXPECT_TRUE(model["heads"][1].contains(statistic.key)) << statistic.key;
  EXPECT_TRUE(model["heads"][0]["entropy"]["mean"].is_null());
  EXPECT_EQ(model["heads"][3]["mass"]["mean"], 0.75);
  EXPECT_EQ(model["classes"]["sink"], 3);
  EXPECT_EQ(model["classes"]["blank"], 1);
  EXPECT_EQ(model["redundancy"]["groups"][0]["heads"], nlohmann::json({"L0H1", "L1H0"}));
  EXPECT_TRUE(model["interactions"].is_null()) << "not measured";
  EXPECT_EQ(json["comparisons"][0]["rows"][0]["interval"].size(), 2u);
}

TEST(StatisticsTables, CsvIsARectangleWhateverTheName) {
  std::istringstream lines(make_csv(make_report()));
  std::string header, line;
  std::getline(lines, header);
  const auto columns = 1 + std::count(header.begin(), header.end(), ',');
  EXPECT_EQ(columns, 5 + 3 * static_cast<int64_t>(kStatisticCount));
  int64_t rows = 0;
  while (std::getline(lines, line)) {
    ++rows;
    // The name of the first model has a comma and quotes of its own.
    const size_t end = line.find("\",", 1);
    EXPECT_EQ(1 + std::count(line.begin() + static_cast<int64_t>(end), line.end(), ','), columns) << line;
  }
  EXPECT_EQ(rows, 8);
  EXPECT_THAT(make_csv(make_report()), HasSubstr("\"a \"\"dense\"\" one, really\",0,0,blank,0"));
}

TEST(StatisticsTables, MarkdownTellsClassesGroupsAndTests) {
  const std::string text = make_markdown(make_report());
  EXPECT_THAT(text, HasSubstr("| sink | 3 |"));
  EXPECT_THAT(text, HasSubstr("L0H1, L1H0"));
  EXPECT_THAT(text, HasSubstr("| prompt kept edges | 1.000 | 0.030 | -0.970 |"));
  EXPECT_THAT(text, HasSubstr("–")) << "an entropy that does not exist";
}

TEST(StatisticsTables, FormatNumbersToBeRead) {
  EXPECT_EQ(format_value(0), "0");
  EXPECT_EQ(format_value(0.0312), "0.031");
  EXPECT_EQ(format_value(1234.5), "1234");
  EXPECT_EQ(format_value(0.00002), "2.0e-05");
  EXPECT_EQ(format_value(std::nan("")), "–");
  EXPECT_EQ(format_p(1.0 / 10001), "< 0.0002");
  EXPECT_EQ(format_p(0.0421), "0.0421");
}

TEST(StatisticsFigures, AreDrawnForOneModelAndForTwo) {
  StatisticsReport report = make_report();
  std::vector<std::string> names;
  for (const NamedFigure& figure : draw_statistics(report, "")) {
    names.push_back(figure.name);
    EXPECT_THAT(draw::render_figure(figure.figure, draw::Format::kSvg), HasSubstr("</svg>")) << figure.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"classes", "density", "change", "prompts"}));
  report.models.resize(1);
  report.comparisons.clear();
  EXPECT_EQ(draw_statistics(report, "").size(), 2u);
}

TEST(StatisticsFigures, CallModelsByTheirNamesAndSayTheProtocol) {
  StatisticsReport report = make_report();
  report.models[0].name = report.models[1].name = "openwork-8m";
  const std::vector<NamedFigure> plain = draw_statistics(report, ""),
                                 said = draw_statistics(report, std::string(200, '0') + " seed 0.");
  ASSERT_EQ(said.size(), 4u);
  for (size_t n : {2, 3})
    EXPECT_THAT(said[n].text, HasSubstr("value in openwork-8m to its value in openwork-8m'"));
  for (size_t n = 0; n < said.size(); ++n) {
    EXPECT_NE(draw::render_figure(plain[n].figure, draw::Format::kSvg),
              draw::render_figure(said[n].figure, draw::Format::kSvg))
        << said[n].name;
    EXPECT_GT(said[n].figure.height, plain[n].figure.height) << said[n].name << ": room for the longer note";
  }
}

}  // namespace
}  // namespace openwork
