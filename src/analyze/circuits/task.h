// Tasks (docs/method.md, 4): prompts in pairs, clean and corrupt, of equal length, with the tokens a model
// should and should not predict at the positions read. Built in, drawn from a seed for the tokenizer at hand:
//   copy          a beginning token, 25 random tokens, the same again; read at every token of the second half
//   ioi           "When Mary and John went to the store, John gave a drink to" -> " Mary", not " John"
//   greater-than  "The war lasted from the year 1742 to the year 17" -> 43 .. 99, not 00 .. 42
//   docstring     the next argument's name in a Python docstring
//   opposite      "The opposite of 'large' is '" -> "small"
// or a user's JSONL file. Everything is checked here, so that those who run a task need not.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/config.h"
#include "text/tokenizer.h"

namespace openwork {

// What is read after one position: the metric compares the answers with the wrongs.
struct TaskRead {
  int64_t position = 0;
  std::vector<int64_t> answers = {}, wrongs = {};
};

struct TaskPrompt {
  std::vector<int64_t> clean, corrupt;
  std::vector<TaskRead> reads = {};
  // Places that say what a head does: "end" -> 14, "answer" -> 2, ... Empty for a user's file.
  std::map<std::string, int64_t> places = {};
};

enum class TaskMetric {
  kLogitDifference,        // logit of the answer minus that of the wrong, mean over the positions read
  kProbabilityDifference,  // summed probability of the answers minus the wrongs', where they are sets
};

struct Task {
  std::string name = {};
  TaskMetric metric = TaskMetric::kLogitDifference;
  std::vector<TaskPrompt> prompts = {};
  uint64_t seed = 0;  // 0 for a file, which draws nothing
  int64_t half = 0;   // copy: tokens of one half; 0 otherwise

  int64_t length() const { return static_cast<int64_t>(prompts.front().clean.size()); }
  int64_t first_read() const;
  int64_t last_read() const;
};

// What a task is made for: the model's tokens. Without a tokenizer only copy and files of ids can be made.
struct TaskVocabulary {
  const Tokenizer* tokenizer = nullptr;
  std::vector<int64_t> beginning;  // what stands before a text
  int64_t begin_token = 0;         // copy's beginning token
  bool copy_begins = true;         // --bos no leaves it out
  int64_t size = 0;                // the model's vocabulary
  int64_t context = 0;
};

// The vocabulary of a model. `beginning` stands before texts; copy begins with the tokenizer's own beginning
// token, else its end of text, else the model's beginning token. A null tokenizer: the model has none.
TaskVocabulary make_vocabulary(const ModelConfig& config, const Tokenizer* tokenizer,
                               std::vector<int64_t> beginning, bool copy_begins);

// `name` is one of built_in_tasks() or a JSONL file; `prompts` is how many to draw, or the most to take from
// a file (0: 24 drawn, all of a file).
Task make_task(const std::string& name, const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed);
const std::vector<std::string>& built_in_tasks();
bool is_built_in_task(const std::string& name);
// Refuses what is neither, before any model is opened for it.
void check_task_name(const std::string& name);

inline constexpr int64_t kDefaultPrompts = 24;
inline constexpr int64_t kCopyHalf = 25;

// Refuses prompts of unequal length, tokens that the model has not, positions that are not there.
void check_task(const Task& task, const TaskVocabulary& vocabulary);

const char* metric_name(TaskMetric metric);  // "logit difference", "probability difference"

}  // namespace openwork
