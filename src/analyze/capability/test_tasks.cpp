// The built-in tasks as accuracy: a prompt is right where the answer is likelier than the wrong one (greater-than:
// all later years together than all others). Prompts drawn twice count once.
#include <algorithm>
#include <map>
#include <set>

#include "analyze/capability/suite_tests.h"

namespace openwork {
namespace {

// Of sets: the most that a model scores which says the same token behind every prompt.
double best_constant(const std::vector<SuitePrompt>& prompts) {
  std::map<int64_t, int64_t> times;  // by token: prompts it is right for
  int64_t most = 0;
  for (const SuitePrompt& prompt : prompts)
    for (const int64_t token : prompt.reads.front().answers) most = std::max(most, ++times[token]);
  return static_cast<double>(most) / static_cast<double>(prompts.size());
}

SuiteTest make_choice(const std::string& name, const SuiteSource& source) {
  const Task task = make_task(name, source.vocabulary, source.prompts, source.seed);
  const bool of_sets = task.metric == TaskMetric::kProbabilityDifference;
  SuiteTest test{.score = of_sets ? SuiteScore::kSum : SuiteScore::kChoice,
                 .all_reads = true,
                 .chance = 0.5,
                 .bins = {{"all"}}};
  std::set<std::vector<int64_t>> seen;
  for (const TaskPrompt& drawn : task.prompts) {
    if (!seen.insert(drawn.clean).second) continue;
    SuitePrompt prompt{.tokens = drawn.clean};
    for (const TaskRead& read : drawn.reads)
      prompt.reads.push_back({read.position, read.answers, read.wrongs, 0});
    test.prompts.push_back(std::move(prompt));
  }
  if (of_sets) test.chance = best_constant(test.prompts);
  return test;
}

}  // namespace

SuiteTest make_ioi_choice(const SuiteSource& source) {
  return make_choice("ioi", source);
}
SuiteTest make_greater_choice(const SuiteSource& source) {
  return make_choice("greater-than", source);
}
SuiteTest make_docstring_choice(const SuiteSource& source) {
  return make_choice("docstring", source);
}
SuiteTest make_opposite_choice(const SuiteSource& source) {
  return make_choice("opposite", source);
}

}  // namespace openwork
