#include "report/suite_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/interval_text.h"

namespace openwork {
namespace {

// One model's number of a bin of the first model's; a dash where it has none.
std::string format_cell(const SuiteModel& model, const SuiteModel& first, size_t test, size_t bin,
                        const std::vector<SuiteDifference>& differences) {
  const std::string& name = first.tests[test].bins[bin].name;
  const std::vector<SuiteBinResult>& own = model.tests[test].bins;
  std::string cell = "-";
  if (bin < own.size() && own[bin].name == name)
    cell = fmt::format("{:.3f} {}", own[bin].mean, interval_text(own[bin].interval, 3));
  const auto row = std::find_if(differences.begin(), differences.end(), [&](const SuiteDifference& one) {
    return one.model == model.name && one.test == first.tests[test].name && one.bin == name;
  });
  return row == differences.end() ? cell : cell + fmt::format(" p {:.3g}", row->p_holm);
}

}  // namespace

std::vector<std::string> format_suite(const std::vector<SuiteModel>& models,
                                      const std::vector<SuiteDifference>& differences) {
  std::string header = fmt::format("{:<14} {:<15}", "test", "");
  for (const SuiteModel& model : models) header += fmt::format(" {:<30}", model.name);
  std::vector<std::string> lines = {header};
  for (size_t t = 0; t < models.front().tests.size(); ++t) {
    const SuiteTestResult& test = models.front().tests[t];
    if (!test.left_out.empty()) lines.push_back(fmt::format("{:<14} left out: {}", test.name, test.left_out));
    for (size_t b = 0; b < test.bins.size(); ++b) {
      std::string line = fmt::format("{:<14} {:<15}", test.name, test.bins[b].name);
      for (const SuiteModel& model : models)
        line += fmt::format(" {:<30}", format_cell(model, models.front(), t, b, differences));
      lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
    }
  }
  if (models.size() > 1)
    lines.push_back(
        fmt::format("p: against {}, sign flips over prompts, Holm over all rows; accuracy "
                    "unless `loss` (nats per token); [95 % interval]",
                    models.front().name));
  return lines;
}

}  // namespace openwork
