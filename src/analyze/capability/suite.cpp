#include "analyze/capability/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/permutation_test.h"
#include "base/philox.h"
#include "base/prompt_interval.h"

namespace openwork {
namespace {

double mean_of(const std::vector<double>& scores) {
  return std::accumulate(scores.begin(), scores.end(), 0.0) /
         static_cast<double>(std::max<size_t>(1, scores.size()));
}

// Of everything a bin's scores depend on but the model.
std::vector<uint64_t> hash_bins(const SuiteTest& test) {
  std::vector<uint64_t> hashes(test.bins.size(), static_cast<uint64_t>(test.score));
  for (const SuitePrompt& prompt : test.prompts) {
    uint64_t text = 0;
    for (const int64_t token : prompt.tokens) text = mix_seed(text, static_cast<uint64_t>(token));
    for (const SuiteRead& read : prompt.reads) {
      uint64_t& hash = hashes[read.bin];
      hash = mix_seed(mix_seed(hash, text), static_cast<uint64_t>(read.position));
      for (const int64_t token : read.answers) hash = mix_seed(hash, static_cast<uint64_t>(token));
      for (const int64_t token : read.wrongs) hash = mix_seed(hash, ~static_cast<uint64_t>(token));
    }
  }
  return hashes;
}

// All bins of a test out of memory, or nothing.
std::optional<BinScores> recall_bins(const SuiteMemory& memory, const std::string& name,
                                     const SuiteTest& test) {
  if (!memory.find) return std::nullopt;
  BinScores bins;
  for (const SuiteBin& bin : test.bins) {
    const std::vector<double>* known = memory.find(name + "/" + bin.name);
    if (!known) return std::nullopt;
    bins.push_back(*known);
  }
  return bins;
}

BinScores run_test(const Transformer& model, const std::string& name, const SuiteTest& test,
                   const SuiteOptions& options) {
  if (options.begin) options.begin(name, static_cast<int64_t>(test.prompts.size()));
  if (std::optional<BinScores> known = recall_bins(options.memory, name, test)) {
    if (options.advance) options.advance(static_cast<int64_t>(test.prompts.size()));
    return *known;
  }
  BinScores bins =
      score_prompts(model, test, {options.batch_tokens, options.ranks, options.advance, options.after_pass});
  for (size_t n = 0; n < bins.size() && options.memory.add; ++n)
    options.memory.add(name + "/" + test.bins[n].name, bins[n]);
  return bins;
}

SuiteTestResult summarise_test(const SuiteTestMaker& maker, const SuiteTest& test, BinScores bins,
                               uint64_t seed) {
  SuiteTestResult result{.name = maker.name,
                         .about = maker.about,
                         .axis = test.axis,
                         .is_accuracy = test.is_accuracy(),
                         .chance = test.chance};
  const std::vector<uint64_t> hashes = hash_bins(test);
  for (size_t n = 0; n < bins.size(); ++n) {
    const double mean = mean_of(bins[n]);
    const Interval interval = suite_interval(bins[n], seed);
    result.bins.push_back(
        {test.bins[n].name, test.bins[n].at, mean, interval, std::move(bins[n]), hashes[n]});
  }
  return result;
}

const SuiteBinResult* find_bin(const SuiteModel& model, const std::string& test, const SuiteBinResult& like) {
  for (const SuiteTestResult& result : model.tests) {
    if (result.name != test) continue;
    for (const SuiteBinResult& bin : result.bins) {
      if (bin.name == like.name && bin.prompts_hash == like.prompts_hash) return &bin;
    }
  }
  return nullptr;
}

SuiteDifference compare_bins(const SuiteBinResult& first, const SuiteBinResult& other, uint64_t seed) {
  std::vector<double> differences;
  for (size_t n = 0; n < first.scores.size(); ++n) differences.push_back(other.scores[n] - first.scores[n]);
  const MeanInterval summary = PromptResampler(differences.size(), seed).summarise(differences);
  return {.difference = mean_of(differences),
          .interval = {summary.low, summary.high},
          .p = sign_flip_test(differences, seed)};
}

}  // namespace

Interval suite_interval(const std::vector<double>& scores, uint64_t seed) {
  const auto count = static_cast<double>(scores.size());
  const bool binary = std::all_of(scores.begin(), scores.end(), [](double x) { return x == 0 || x == 1; });
  if (binary && count > 0) {
    constexpr double z = 1.959964;
    const double share = mean_of(scores), weight = 1 + z * z / count;
    const double middle = (share + z * z / (2 * count)) / weight;
    const double half = z / weight * std::sqrt(share * (1 - share) / count + z * z / (4 * count * count));
    return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
  }
  const MeanInterval summary = PromptResampler(scores.size(), seed).summarise(scores);
  return {summary.low, summary.high};
}

SuiteModel run_suite(const Transformer& model, const std::string& name, const SuiteSource& source,
                     const std::vector<const SuiteTestMaker*>& tests, const SuiteOptions& options) {
  SuiteModel result{.name = name};
  for (const SuiteTestMaker* maker : tests) {
    SuiteTest test;
    try {
      test = maker->make(source);
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kInput) throw;
      const std::string line = error.what();
      result.tests.push_back(
          {.name = maker->name, .about = maker->about, .left_out = line.substr(0, line.find(';'))});
      continue;
    }
    BinScores bins = run_test(model, maker->name, test, options);
    result.tests.push_back(summarise_test(*maker, test, std::move(bins), source.seed));
  }
  return result;
}

std::vector<SuiteDifference> compare_suites(const std::vector<SuiteModel>& models, uint64_t seed) {
  std::vector<SuiteDifference> rows;
  for (size_t m = 1; m < models.size(); ++m) {
    for (const SuiteTestResult& test : models.front().tests) {
      for (const SuiteBinResult& bin : test.bins) {
        const SuiteBinResult* other = find_bin(models[m], test.name, bin);
        if (!other) continue;
        SuiteDifference row = compare_bins(bin, *other, seed);
        row.model = models[m].name, row.test = test.name, row.bin = bin.name;
        rows.push_back(std::move(row));
      }
    }
  }
  std::vector<double> p_values;
  for (const SuiteDifference& row : rows) p_values.push_back(row.p);
  const std::vector<double> corrected = correct_by_holm(p_values);
  for (size_t n = 0; n < rows.size(); ++n) rows[n].p_holm = corrected[n];
  return rows;
}

}  // namespace openwork
