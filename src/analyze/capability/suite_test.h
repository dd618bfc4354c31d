// A test of the suite as data: prompts, the places where the model's next token is read, and how a read is
// scored. A maker writes one for a model's tokens (suite_tests.h), score_prompts.h runs it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/circuits/task.h"
#include "text/documents.h"

namespace openwork {

// What is read after one position of a prompt.
struct SuiteRead {
  int64_t position = 0;
  std::vector<int64_t> answers = {}, wrongs = {};
  size_t bin = 0;  // where the score goes
};

struct SuitePrompt {
  std::vector<int64_t> tokens = {};
  std::vector<SuiteRead> reads = {};
};

enum class SuiteScore {
  kTop,     // 1 where the most likely token is an answer
  kChoice,  // 1 where the likeliest answer is likelier than every wrong
  kSum,     // 1 where the answers together are likelier than the wrongs together
  kNats,    // minus the answer's log-probability
};

// Scores stand in bins: a distance, a range of positions, a kind of context.
struct SuiteBin {
  std::string name;
  double at = 0;  // its place on an axis; 0: it has none
};

struct SuiteTest {
  SuiteScore score = SuiteScore::kTop;
  bool all_reads = false;  // a prompt is right where all its reads of a bin are; else their mean
  double chance = 0;       // accuracy of guessing
  std::string axis = {};   // what `at` is: "distance in tokens"; empty: the bins are no axis
  std::vector<SuiteBin> bins = {};
  std::vector<SuitePrompt> prompts = {};

  bool is_accuracy() const { return score != SuiteScore::kNats; }
};

// What tests are made of: one model's tokens, and held-out text in them where there is any.
struct SuiteSource {
  TaskVocabulary vocabulary;
  int64_t context = 0;   // the longest prompt
  int64_t prompts = 64;  // of each bin, at most
  uint64_t seed = 0;
  std::vector<std::vector<int32_t>> documents = {};  // from their beginning on, long ones; none: no data
  TokenBlocks blocks = {};                           // of `context` tokens
};

}  // namespace openwork
