#include "analyze/capability/suite_tests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace openwork {

std::vector<std::string> suite_test_names() {
  std::vector<std::string> names;
  for (const SuiteTestMaker& test : kSuiteTests) names.emplace_back(test.name);
  return names;
}

std::vector<const SuiteTestMaker*> choose_suite_tests(const std::vector<std::string>& names) {
  std::vector<const SuiteTestMaker*> chosen;
  for (const SuiteTestMaker& test : kSuiteTests) {
    if (names.empty() || std::find(names.begin(), names.end(), test.name) != names.end())
      chosen.push_back(&test);
  }
  for (const std::string& name : names) {
    const auto known = suite_test_names();
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail_input(fmt::format("no test '{}'", printable(name, 60)), "--tests",
               fmt::format("use some of {}", fmt::join(known, ",")));
  }
  return chosen;
}

std::vector<int64_t> suite_distances(int64_t first, int64_t last) {
  std::vector<int64_t> distances;
  for (int64_t distance = first; 4 * distance <= 3 * last; distance *= 2) distances.push_back(distance);
  if (last >= first) distances.push_back(last);
  return distances;
}

}  // namespace openwork
