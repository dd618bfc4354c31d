// Copying at a distance: [beginning] S F S, S a run of random tokens, F other random tokens that are none of S,
// so that each token of the second S stands `distance` tokens after the first. Read at all but its first token,
// which nothing foretells. As a choice a read is right where the token is likelier than the others of S: small
// models, which seldom say a random token outright, differ there.
#include <fmt/format.h>

#include <set>

#include "analyze/capability/suite_tests.h"
#include "analyze/circuits/task_parts.h"
#include "base/error.h"

namespace openwork {
namespace {

constexpr int64_t kRun = 8;

SuitePrompt make_copy_prompt(const TaskVocabulary& vocabulary, const std::vector<int64_t>& ordinary,
                             int64_t distance, size_t bin, TaskRandom& random) {
  std::vector<int64_t> run;
  while (static_cast<int64_t>(run.size()) < kRun) {
    const int64_t token = random.choose(ordinary);
    if (std::find(run.begin(), run.end(), token) == run.end()) run.push_back(token);
  }
  SuitePrompt prompt;
  if (vocabulary.copy_begins) prompt.tokens.push_back(vocabulary.begin_token);
  prompt.tokens.insert(prompt.tokens.end(), run.begin(), run.end());
  for (int64_t filled = kRun; filled < distance;) {
    const int64_t token = random.choose(ordinary);
    if (std::find(run.begin(), run.end(), token) != run.end()) continue;
    prompt.tokens.push_back(token);
    ++filled;
  }
  for (size_t n = 0; n + 1 < run.size(); ++n) {
    std::vector<int64_t> others = run;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(n) + 1);
    prompt.reads.push_back(
        {static_cast<int64_t>(prompt.tokens.size()), {run[n + 1]}, std::move(others), bin});
    prompt.tokens.push_back(run[n]);
  }
  return prompt;
}

SuiteTest make_copies(const SuiteSource& source, bool choice) {
  const TaskVocabulary& vocabulary = source.vocabulary;
  const std::vector<int64_t> ordinary = ordinary_tokens(vocabulary);
  const int64_t longest = source.context - (kRun - 1) - (vocabulary.copy_begins ? 1 : 0);
  if (longest < kRun || static_cast<int64_t>(ordinary.size()) < 2 * kRun) {
    fail_input(fmt::format("a context of {} tokens and {} ordinary ones", source.context, ordinary.size()),
               "test copy", fmt::format("use a model with at least {} of each", 2 * kRun));
  }
  SuiteTest test{.score = choice ? SuiteScore::kChoice : SuiteScore::kTop,
                 .chance = choice ? 1.0 / kRun : 0,
                 .axis = "distance in tokens"};
  for (const int64_t distance : suite_distances(kRun, longest)) {
    // A stream for each distance: another context leaves the prompts of the others as they are.
    TaskRandom random(mix_seed(mix_seed(source.seed, 101), static_cast<uint64_t>(distance)));
    for (int64_t n = 0; n < source.prompts; ++n)
      test.prompts.push_back(make_copy_prompt(vocabulary, ordinary, distance, test.bins.size(), random));
    test.bins.push_back({fmt::format("{}", distance), static_cast<double>(distance)});
  }
  return test;
}

}  // namespace

SuiteTest make_copying(const SuiteSource& source) {
  return make_copies(source, false);
}
SuiteTest make_copy_choice(const SuiteSource& source) {
  return make_copies(source, true);
}

}  // namespace openwork
