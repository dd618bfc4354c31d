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

// A head on two tokens; blank where it attends to nothing.
CollectedHead small_head(HeadPlace place, double mass) {
  CollectedHead head{place, {}, {2, 2, {}}, 0, {}};
  head.summary.mass = mass;
  if (!head.summary.blank()) head.cells.values = {1, 0, 0.5f, 0.5f};
  return head;
}

ComparedModel small_model(const std::string& name, double loss, double kept,
                          const std::vector<double>& masses) {
  ComparedModel model;
  model.name = model.heads.name = name;
  model.loss.nats_per_token = loss;
  model.loss.kept_edges = kept;
  model.loss.heads = {{kept, kept}};
  model.heads.layers = 1, model.heads.heads = 2, model.heads.tokens = 2;
  model.heads.pieces = {"a", " <b>"};
  for (size_t n = 0; n < masses.size(); ++n) {
    model.heads.shown.push_back(small_head({0, static_cast<int64_t>(n)}, masses[n]));
    if (masses[n] == 0) model.heads.blank.push_back({0, static_cast<int64_t>(n)});
  }
  return model;
}

ComparisonRecord small_record() {
  ComparisonRecord record;
  record.prompt = "a <b>";
  record.protocol = {{"program", "openwork test"}};
  record.compared.models = {small_model("dense", 3.0, 1, {1, 1}), small_model("sparse", 3.1, 0.02, {0.5, 0})};
  Evaluation &dense = record.compared.models[0].loss, &sparse = record.compared.models[1].loss;
  dense.prompt_kept_edges = 1, dense.prompt_open_heads = 2;
  sparse.prompt_kept_edges = 0.125, sparse.prompt_open_heads = 1.5;
  sparse.kept_edges_by_row[0] = 0.25;
  record.loss_data = "text.txt";
  return record;
}

TEST(ComparisonPage, SaysWhatIsKeptWhereTextsAreShort) {
  const ComparisonRecord record = small_record();
  EXPECT_THAT(list_findings(record),
              testing::Contains(
                  "On a prompt of a few dozen tokens it keeps 12.5 % of the edges, in 1.5 of its 2 heads."));
  const std::string html = render_page(make_comparison_page(record));
  EXPECT_THAT(html, HasSubstr("rows 1-8"));
  // By the names of eval's JSON: "kept edges" alone is the share over held-out text.
  EXPECT_THAT(html, HasSubstr("<th>kept edges by row</th>"));
  EXPECT_THAT(html, HasSubstr(">prompt kept edges</th>"));
  EXPECT_THAT(html, HasSubstr("25 %"));
  EXPECT_EQ(to_json(record)["losses"][1]["kept_edges_by_row"]["1-8"], 0.25);
  EXPECT_EQ(to_json(record)["losses"][1]["name"], "sparse");
}

TEST(ComparisonPage, WritesLargeNumbersWithCommas) {
  ComparisonRecord record = small_record();
  for (ComparedModel& model : record.compared.models) {
    model.loss.tokens = 1048576;
    model.cost.heads = model.cost.kept_heads = 2;
    model.cost.parameters = 8123456;
    model.cost.prompt_speed = 12345.6;
  }
  const std::string html = render_page(make_comparison_page(record));
  for (const char* number : {">1,048,576<", ">8,123,456<", ">12,346 (x 1.00)<"})
    EXPECT_THAT(html, HasSubstr(number));
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
  EXPECT_THAT(html, HasSubstr("<div class=\"blank\" role=\"img\" aria-label=\"sparse L0H1: blank"));
  EXPECT_THAT(html, HasSubstr("data-model=\"1\" data-head=\"L0H0\" alt=\"sparse L0H0: "));
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
  EXPECT_THAT(page.sections[3].html, Not(HasSubstr("traced to its own")));
  record.trace->answers = "Each is traced to its own <answer>.";
  EXPECT_THAT(list_findings(record), testing::Contains(HasSubstr("in sparse. Each is traced to its own")));
  EXPECT_THAT(make_comparison_page(record).sections[3].html, HasSubstr("traced to its own &lt;answer&gt;."));
}

TEST(ComparisonPage, FindsWhatTheNumbersSay) {
  const std::vector<std::string> findings = list_findings(small_record());
  ASSERT_FALSE(findings.empty());
  EXPECT_THAT(findings[0], HasSubstr("sparse keeps 2 % of dense's attention edges"));
  EXPECT_THAT(findings[0], HasSubstr("+0.100"));
  EXPECT_EQ(to_json(small_record())["findings"].size(), findings.size());
}

// Tokens of two tokenizers are not alike: their losses are compared by the byte, and that is said.
TEST(ComparisonPage, ComparesLossesOfTwoTokenizersByTheByte) {
  ComparisonRecord record = small_record();
  record.compared.models[0].vocabulary = "one", record.compared.models[1].vocabulary = "another";
  record.compared.models[0].loss.bits_per_byte = 1.25, record.compared.models[1].loss.bits_per_byte = 1.5;
  EXPECT_THAT(list_findings(record)[0],
              HasSubstr("its loss is 1.500 bits per byte against 1.250 (+0.250; their tokenizers differ)"));
  const std::string html = make_comparison_page(record).sections[0].html;
  EXPECT_THAT(html, HasSubstr("bits per byte (two tokenizers)"));
  EXPECT_THAT(html, Not(HasSubstr("nats per token")));
}

TEST(ComparisonPage, HoldsEveryFurtherModelAgainstTheFirst) {
  ComparisonRecord record = small_record();
  record.compared.models.push_back(small_model("sparser", 3.5, 0.01, {0.5, 0}));
  const std::vector<std::string> findings = list_findings(record);
  ASSERT_GE(findings.size(), 4u);
  EXPECT_THAT(findings[3], HasSubstr("sparser keeps 1 % of dense's attention edges"));
  EXPECT_THAT(findings[3], HasSubstr("+0.500"));
  const std::string html = render_page(make_comparison_page(record));
  EXPECT_THAT(html, HasSubstr("dense beside sparse beside sparser"));
  EXPECT_THAT(html, HasSubstr("data-model=\"2\" data-head=\"L0H0\""));
}

TEST(ComparisonPage, ShowsTokensAsMarks) {
  EXPECT_EQ(to_json(small_record())["tokens"][1], nlohmann::json({"a", "·<b>"}));
}

}  // namespace
}  // namespace openwork
