// The page: safe text, pictures whose values can be read back, sections that come and go with their records.
#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "draw/colour.h"
#include "report/comparison_page.h"
#include "report/head_sprites.h"
#include "report/html.h"

namespace openwork {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Html, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(escape_html("<b>\"A & B\"</b>"), "&lt;b&gt;&quot;A &amp; B&quot;&lt;/b&gt;");
  EXPECT_EQ(escape_html("\xC3\xA9\xFF"), "\xC3\xA9\xEF\xBF\xBD") << "a byte that is no character";
  EXPECT_EQ(escape_html(std::string("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
}

TEST(Html, EncodesBase64) {
  EXPECT_EQ(encode_base64(""), "");
  EXPECT_EQ(encode_base64("f"), "Zg==");
  EXPECT_EQ(encode_base64("fo"), "Zm8=");
  EXPECT_EQ(encode_base64("foo"), "Zm9v");
  EXPECT_EQ(encode_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(encode_base64("\xFF\x00\x10\x80"), encode_base64(std::string("\xFF")));
}

TEST(Html, TablesAlignNumbersAndEscapeCells) {
  HtmlTable table({"name", "#value"}, "sortable");
  table.add({"<i>", "3"});
  EXPECT_THAT(table.html(), HasSubstr("<th class=\"number\">value</th>"));
  EXPECT_THAT(table.html(), HasSubstr("<td>&lt;i&gt;</td><td class=\"number\">3</td>"));
}

TEST(Sprites, KeepEveryValueToOneIn255) {
  const draw::ColourScale scale{1.0, draw::Shade::kSquareRoot};
  for (int n = 0; n <= 10000; ++n) {
    const double value = n / 10000.0;
    EXPECT_LE(std::abs(scale.value_at(scale.index_of(value)) - value), 1.0 / 255 + 1e-12) << value;
  }
  std::set<int> colours;
  for (const nlohmann::json& colour : sprite_palette()) colours.insert(colour.get<int>());
  EXPECT_EQ(colours.size(), 256u) << "two values of one colour could not be told apart";
}

TEST(Sprites, AreSmallPngFiles) {
  const std::vector<float> pattern = {1, 0, 0.5f, 0.5f};
  const std::string png = make_sprite(pattern, 2);
  EXPECT_TRUE(png.starts_with("\x89PNG"));
  EXPECT_LT(png.size(), 1500u);
}

Page small_page() {
  Page page;
  page.title = "A & B";
  page.sections = {{"one", "One", "<p>text</p>"}};
  page.data = {{"tokens", {"</script>"}}};
  return page;
}

TEST(PageTest, LoadsNothingAndForbidsLoading) {
  const std::string html = render_page(small_page());
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  for (const char* loader :
       {"<link rel=\"stylesheet", "src=\"http", "@import", "url(http", "fetch(", "XMLHttpRequest"}) {
    EXPECT_THAT(html, Not(HasSubstr(loader)));
  }
}

TEST(PageTest, KeepsTokensFromEndingTheScript) {
  const std::string html = render_page(small_page());
  EXPECT_THAT(html, HasSubstr("\\u003c/script>"));
  EXPECT_THAT(html, HasSubstr("<h1>A &amp; B</h1>"));
}

ComparisonRecord small_record() {
  ComparisonRecord record;
  record.models = {"dense", "sparse"};
  record.prompt = "a <b>";
  record.tokens = {{"a", "·<b>"}, {"a", "·<b>"}};
  record.protocol = {{"program", "openwork test"}};
  const std::vector<std::vector<double>> every = {{1, 1}, {1, 1}}, few = {{0.04, 0.02}, {0.02, 0}};
  record.losses = {{.nats_per_token = 3.0,
                    .low = 2.9,
                    .high = 3.1,
                    .prompt_kept_edges = 1,
                    .prompt_open_heads = 4,
                    .open_heads = 4,
                    .heads = every,
                    .tokens = 100,
                    .documents = 2},
                   {.nats_per_token = 3.1,
                    .low = 3.0,
                    .high = 3.2,
                    .kept_edges = 0.02,
                    .prompt_kept_edges = 0.125,
                    .prompt_open_heads = 1.5,
                    .open_heads = 3,
                    .closed_heads = 1,
                    .heads = few,
                    .tokens = 100,
                    .documents = 2}};
  record.losses[1].kept_edges_by_row[0] = 0.25;
  record.loss_data = "text.txt";
  const std::string png = make_sprite(std::vector<float>{1, 0, 0.5f, 0.5f}, 2);
  record.sheets = {{"dense", 1, 2, {{"L0H0", "sink", 1, 1, png}, {"L0H1", "self", 1, 1, png}}, 0},
                   {"sparse", 1, 2, {{"L0H0", "sink", 0.5, 0.1, png}, {"L0H1", "blank", 0, 0, ""}}, 0}};
  return record;
}

TEST(ComparisonPage, SaysWhatIsKeptWhereTextsAreShort) {
  const ComparisonRecord record = small_record();
  EXPECT_THAT(list_findings(record),
              testing::Contains(
                  "On a prompt of a few dozen tokens it keeps 12.5 % of the edges, in 1.5 of its 4 heads."));
  const std::string html = render_page(make_comparison_page(record));
  EXPECT_THAT(html, HasSubstr("rows 1-8"));
  EXPECT_THAT(html, HasSubstr("25 %"));
  EXPECT_EQ(to_json(record)["losses"][1]["kept_edges_by_row"]["1-8"], 0.25);
  EXPECT_EQ(to_json(record)["losses"][1]["name"], "sparse");
}

TEST(ComparisonPage, LeavesOutSectionsWithoutRecords) {
  const Page page = make_comparison_page(small_record());
  std::vector<std::string> ids;
  for (const PageSection& section : page.sections) ids.push_back(section.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"found", "models", "heads", "protocol"}));
}

TEST(ComparisonPage, ShowsBlankHeadsAsBlankAndCountsThem) {
  const std::string html = render_page(make_comparison_page(small_record()));
  EXPECT_THAT(html, HasSubstr("2 heads, 1 of them blank on this prompt"));
  EXPECT_THAT(html, HasSubstr("<div class=\"blank\" title=\"sparse L0H1: blank"));
  EXPECT_THAT(html, HasSubstr("data-model=\"1\" data-head=\"L0H0\""));
  EXPECT_THAT(html, HasSubstr("a &lt;b&gt;"));
}

TEST(ComparisonPage, SaysHowManyHeadsCarryThePrompt) {
  ComparisonRecord record = small_record();
  record.trace =
      TraceRecord{.from = "a (0)",
                  .to = "·<b> (1)",
                  .share = 0.8,
                  .features = true,
                  .models = {{"dense", "·c", 0.25, 5, 8, "L0H0, ..."}, {"sparse", "·c", 0.5, 2, 8, "L0H1"}},
                  .json = {{{"name", "dense"}}},
                  .figures = {}};
  EXPECT_THAT(list_findings(record),
              testing::Contains(
                  "One prompt: 80 % of what moves from a (0) to ·<b> (1) needs 5 of 8 heads in dense, 2 of "
                  "8 heads in sparse."));
  EXPECT_EQ(to_json(record)["trace"], record.trace->json);
  EXPECT_TRUE(to_json(small_record())["trace"].is_null());
  const Page page = make_comparison_page(record);
  EXPECT_EQ(page.sections[3].id, "trace");
  EXPECT_THAT(page.sections[3].html, HasSubstr("from a (0) to ·&lt;b&gt; (1)"));
  EXPECT_THAT(page.sections[3].html, HasSubstr("transcoders' features as nodes"));
}

TEST(ComparisonPage, FindsWhatTheNumbersSay) {
  const std::vector<std::string> findings = list_findings(small_record());
  ASSERT_FALSE(findings.empty());
  EXPECT_THAT(findings[0], HasSubstr("sparse keeps 2 % of dense's attention edges"));
  EXPECT_THAT(findings[0], HasSubstr("+0.100"));
  EXPECT_EQ(to_json(small_record())["findings"].size(), findings.size());
}

}  // namespace
}  // namespace openwork
