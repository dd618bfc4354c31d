// The capability suite (docs/method.md, 6; docs/suite.md): what a model can still do, beside what its sparsity
// saves. Models are run one after the other, each on every test that its tokens allow; the first is the yardstick
// that the others are tested against, prompt by prompt.
//   SuiteModel model = run_suite(transformer, "sparse/", source, choose_suite_tests({}), options);
//   std::vector<SuiteDifference> differences = compare_suites(models, seed);
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "analyze/capability/score_prompts.h"
#include "analyze/capability/suite_tests.h"
#include "base/interval.h"

namespace openwork {

struct SuiteBinResult {
  std::string name;
  double at = 0;  // on the test's axis; 0: it has none
  double mean = 0;
  Interval interval;           // 95 %
  std::vector<double> scores;  // by prompt
  uint64_t prompts_hash = 0;   // of tokens and reads: only equal prompts are compared
};

struct SuiteTestResult {
  std::string name = {}, about = {}, axis = {};
  bool is_accuracy = true;  // else nats per token
  double chance = 0;
  std::string left_out = {};  // why the test was not run; empty: it was
  std::vector<SuiteBinResult> bins = {};
};

struct SuiteModel {
  std::string name;
  std::vector<SuiteTestResult> tests = {};
};

// Scores known from before, and where to keep new ones: by "test/bin".
struct SuiteMemory {
  std::function<const std::vector<double>*(const std::string& name)> find;
  std::function<void(const std::string& name, const std::vector<double>& scores)> add;
};

struct SuiteOptions {
  int64_t batch_tokens = 0;
  Ranks* ranks = nullptr;
  // Told when a test begins, with its prompts, and after each pass with those done.
  std::function<void(const std::string& test, int64_t prompts)> begin;
  std::function<void(int64_t prompts)> advance;
  std::function<void()> after_pass;  // on every rank alike: may throw to end the work
  SuiteMemory memory;
};

SuiteModel run_suite(const Transformer& model, const std::string& name, const SuiteSource& source,
                     const std::vector<const SuiteTestMaker*>& tests, const SuiteOptions& options = {});

// A later model against the first on one bin, prompt by prompt.
struct SuiteDifference {
  std::string model = {}, test = {}, bin = {};
  double difference = 0;  // later less first
  Interval interval;      // 95 %, prompts resampled
  double p = 1, p_holm = 1;
};

// Bins whose prompts differ (another tokenizer or context) are left out. p by sign flips over prompts, corrected
// over the whole list.
std::vector<SuiteDifference> compare_suites(const std::vector<SuiteModel>& models, uint64_t seed);

// 95 %: Wilson's where every score is 0 or 1, so that 64 of 64 is not certainty; else prompts resampled.
Interval suite_interval(const std::vector<double>& scores, uint64_t seed);

}  // namespace openwork
