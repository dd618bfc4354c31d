// What each model costs and what it can do, one column for each: the comparison page's answer to what was saved and
// what was lost.
#include <fmt/format.h>

#include <cmath>

#include "base/interval_text.h"
#include "base/number_text.h"
#include "report/comparison_sections.h"
#include "report/html.h"

namespace openwork {
namespace {

using CostRow = std::vector<std::string>;

// A row: its name, and of every model what `cell` says.
template <typename Cell>
CostRow row_of(const ComparisonRecord& record, std::string name, const Cell& cell) {
  CostRow cells = {std::move(name)};
  for (const ComparedModel& model : record.compared.models) cells.push_back(cell(model));
  return cells;
}

// Tokens per second, and times the first model's.
CostRow speed_row(const ComparisonRecord& record, std::string name, double ModelCost::*speed) {
  const double first = record.compared.models.front().cost.*speed;
  return row_of(record, std::move(name), [&](const ComparedModel& model) -> std::string {
    const double own = model.cost.*speed;
    if (own <= 0) return "–";
    const std::string text = group_digits(std::llround(own));
    return first > 0 ? fmt::format("{} (x {:.2f})", text, own / first) : text;
  });
}

const SuiteTestResult* find_test(const ComparedModel& model, const std::string& name) {
  for (const SuiteTestResult& test : model.capability.tests)
    if (test.name == name && test.left_out.empty()) return &test;
  return nullptr;
}

// Over all distances of the test.
std::string describe_accuracy(const SuiteTestResult& test) {
  std::vector<double> scores;
  for (const SuiteBinResult& bin : test.bins)
    scores.insert(scores.end(), bin.scores.begin(), bin.scores.end());
  if (scores.empty()) return "–";
  double sum = 0;
  for (const double score : scores) sum += score;
  return fmt::format("{:.2f} {}", sum / static_cast<double>(scores.size()),
                     interval_text(suite_interval(scores, 0), 2));
}

void add_capability_rows(const ComparisonRecord& record, HtmlTable& table) {
  for (const SuiteTestResult& test : record.compared.models.front().capability.tests) {
    const std::string chance = test.chance > 0 ? fmt::format(" (chance {:.2g})", test.chance) : "";
    table.add(row_of(record, test.name + chance, [&](const ComparedModel& model) -> std::string {
      const SuiteTestResult* own = find_test(model, test.name);
      return own ? describe_accuracy(*own) : "–";
    }));
  }
}

// What the rows' names mean.
std::string describe_tests(const ComparisonRecord& record) {
  std::string text;
  for (const SuiteTestResult& test : record.compared.models.front().capability.tests)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", test.name, test.about);
  return text;
}

}  // namespace

std::string cost_section(const ComparisonRecord& record) {
  const ModelCost& first = record.compared.models.front().cost;
  if (first.heads == 0) return {};  // not measured
  CostRow headings = {""};
  for (const ComparedModel& model : record.compared.models) headings.push_back("#" + model.name);
  HtmlTable table(headings);
  table.add(row_of(record, "heads", [](const ComparedModel& model) {
    return fmt::format("{} of {}", model.cost.kept_heads, model.cost.heads);
  }));
  table.add(row_of(record, "parameters",
                   [](const ComparedModel& model) { return group_digits(model.cost.parameters); }));
  table.add(row_of(record, "weights, MB", [](const ComparedModel& model) {
    return fmt::format("{:.1f}", model.cost.weight_megabytes);
  }));
  table.add(speed_row(record, "prompt, tokens/s", &ModelCost::prompt_speed));
  table.add(speed_row(record, "generation, tokens/s", &ModelCost::generation_speed));
  add_capability_rows(record, table);
  std::string note = fmt::format(
      "Speeds on this machine in this run: a prompt of {} tokens, and {} tokens generated behind it; "
      "openwork bench "
      "infer measures them with care.",
      first.prompt_tokens, first.generated_tokens);
  if (const std::string tests = describe_tests(record); !tests.empty()) {
    note += fmt::format(
        " Below them the share of short prompts answered rightly, with 95 % intervals. {}. openwork eval "
        "--suite asks "
        "more, at every distance, with paired tests.",
        tests);
  }
  return table.html() + fmt::format("<p class=\"soft small\">{}</p>\n", escape_html(note));
}

}  // namespace openwork
