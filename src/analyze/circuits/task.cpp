#include "analyze/circuits/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

#include "analyze/circuits/task_parts.h"
#include "base/error.h"

namespace openwork {
namespace {

struct TaskMaker {
  const char* name;
  Task (*make)(const TaskVocabulary&, int64_t, uint64_t);
};

constexpr TaskMaker kMakers[] = {{"copy", make_copy_task},
                                 {"ioi", make_names_task},
                                 {"greater-than", make_years_task},
                                 {"docstring", make_docstring_task},
                                 {"opposite", make_opposite_task}};

void check_tokens(const std::vector<int64_t>& ids, const TaskVocabulary& vocabulary,
                  const std::string& where) {
  for (const int64_t id : ids) {
    if (id >= 0 && id < vocabulary.size) continue;
    fail_input(fmt::format("token id {}", id), where, fmt::format("ids are 0 to {}", vocabulary.size - 1));
  }
}

void check_reads(const TaskPrompt& prompt, const TaskVocabulary& vocabulary, const std::string& where) {
  if (prompt.reads.empty()) fail_input("nothing is read", where, "give an answer and a wrong answer");
  for (const TaskRead& read : prompt.reads) {
    if (read.position < 0 || read.position >= static_cast<int64_t>(prompt.clean.size())) {
      fail_input(fmt::format("position {} is read, but the prompt has {} tokens", read.position,
                             prompt.clean.size()),
                 where, fmt::format("positions are 0 to {}", prompt.clean.size() - 1));
    }
    if (read.answers.empty() || read.wrongs.empty()) {
      fail_input("an empty set of answers or wrong answers", where, "give at least one token of each");
    }
    check_tokens(read.answers, vocabulary, where);
    check_tokens(read.wrongs, vocabulary, where);
  }
}

}  // namespace

int64_t Task::first_read() const {
  int64_t first = length();
  for (const TaskPrompt& prompt : prompts) {
    for (const TaskRead& read : prompt.reads) first = std::min(first, read.position);
  }
  return first;
}

int64_t Task::last_read() const {
  int64_t last = 0;
  for (const TaskPrompt& prompt : prompts) {
    for (const TaskRead& read : prompt.reads) last = std::max(last, read.position);
  }
  return last;
}

const std::vector<std::string>& built_in_tasks() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const TaskMaker& maker : kMakers) list.push_back(maker.name);
    return list;
  }();
  return names;
}

bool is_built_in_task(const std::string& name) {
  return std::find(built_in_tasks().begin(), built_in_tasks().end(), name) != built_in_tasks().end();
}

void check_task_name(const std::string& name) {
  if (is_built_in_task(name)) return;
  std::ifstream file(name, std::ios::binary);
  if (file && file.peek() != std::ifstream::traits_type::eof()) return;
  fail_input(
      fmt::format("no task '{}'", printable(name, 60)), "--task",
      fmt::format("use {} or a JSONL file that is there and not empty", fmt::join(built_in_tasks(), ", ")));
}

const char* metric_name(TaskMetric metric) {
  return metric == TaskMetric::kLogitDifference ? "logit difference" : "probability difference";
}

TaskVocabulary make_vocabulary(const ModelConfig& config, const Tokenizer* tokenizer,
                               std::vector<int64_t> beginning, bool copy_begins) {
  TaskVocabulary vocabulary{.tokenizer = tokenizer,
                            .beginning = std::move(beginning),
                            .begin_token = config.beginning_token.value_or(0),
                            .copy_begins = copy_begins,
                            .size = config.vocabulary,
                            .context = config.context};
  if (tokenizer == nullptr) return vocabulary;
  if (tokenizer->end_of_text_id()) vocabulary.begin_token = *tokenizer->end_of_text_id();
  if (tokenizer->beginning_id()) vocabulary.begin_token = *tokenizer->beginning_id();
  return vocabulary;
}

Task make_task(const std::string& name, const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed) {
  Task task;
  if (is_built_in_task(name)) {
    const int64_t count = prompts > 0 ? prompts : kDefaultPrompts;
    for (const TaskMaker& maker : kMakers) {
      if (name == maker.name) task = maker.make(vocabulary, count, seed);
    }
    task.seed = seed;
  } else {
    task = read_task_file(name, vocabulary, prompts);
  }
  task.name = name;
  check_task(task, vocabulary);
  return task;
}

void check_task(const Task& task, const TaskVocabulary& vocabulary) {
  if (task.prompts.empty()) fail_input("the task has no prompts", task.name, "give at least one prompt");
  for (size_t n = 0; n < task.prompts.size(); ++n) {
    const TaskPrompt& prompt = task.prompts[n];
    const std::string where = fmt::format("prompt {} of task {}", n + 1, task.name);
    if (prompt.clean.empty()) fail_input("the prompt is empty", where, "give at least one token");
    if (prompt.clean.size() != prompt.corrupt.size()) {
      fail_input(
          fmt::format("clean has {} tokens and corrupt {}", prompt.clean.size(), prompt.corrupt.size()),
          where, "make them equally long in tokens");
    }
    if (static_cast<int64_t>(prompt.clean.size()) != task.length()) {
      fail_input(fmt::format("{} tokens, but the first prompt has {}", prompt.clean.size(), task.length()),
                 where, "make all prompts of a task equally long in tokens");
    }
    check_tokens(prompt.clean, vocabulary, where);
    check_tokens(prompt.corrupt, vocabulary, where);
    check_reads(prompt, vocabulary, where);
  }
  if (task.length() > vocabulary.context) {
    fail_input(fmt::format("{} tokens, but the model's context is {}", task.length(), vocabulary.context),
               "task " + task.name, "use shorter prompts");
  }
}

std::vector<std::string> TaskRandom::choose_different(const std::vector<std::string>& list, size_t count) {
  std::vector<std::string> chosen;
  while (chosen.size() < std::min(count, list.size())) {
    const std::string& word = choose(list);
    if (std::find(chosen.begin(), chosen.end(), word) == chosen.end()) chosen.push_back(word);
  }
  return chosen;
}

std::optional<int64_t> single_token(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  return ids.size() == 1 ? std::optional<int64_t>(ids.front()) : std::nullopt;
}

std::vector<std::string> single_token_words(const Tokenizer& tokenizer, const std::vector<std::string>& words,
                                            std::string_view before) {
  std::vector<std::string> kept;
  for (const std::string& word : words) {
    if (single_token(tokenizer, std::string(before) + word)) kept.push_back(word);
  }
  return kept;
}

std::vector<int64_t> task_tokens(const TaskVocabulary& vocabulary, std::string_view text) {
  std::vector<int64_t> ids = vocabulary.beginning;
  for (const int32_t id : vocabulary.tokenizer->encode(text)) ids.push_back(id);
  return ids;
}

const Tokenizer& need_tokenizer(const TaskVocabulary& vocabulary, const std::string& task) {
  if (vocabulary.tokenizer) return *vocabulary.tokenizer;
  fail_input("the model has no tokenizer", "task " + task, "use --task copy or a JSONL file of token ids");
}

void refuse_tokenizer(const std::string& task, const std::string& why) {
  fail_input(why, "task " + task, "use another task, or a JSONL file of prompts that suit this tokenizer");
}

std::vector<int64_t> ordinary_tokens(const TaskVocabulary& vocabulary) {
  std::vector<int64_t> ordinary;
  for (int64_t id = 0; id < vocabulary.size; ++id) {
    if (id == vocabulary.begin_token) continue;
    const bool known = !vocabulary.tokenizer || id < vocabulary.tokenizer->size();
    if (!known) continue;
    const auto token = static_cast<int32_t>(id);
    if (vocabulary.tokenizer &&
        (vocabulary.tokenizer->is_special(token) || vocabulary.tokenizer->piece(token).empty()))
      continue;
    ordinary.push_back(id);
  }
  return ordinary;
}

Task make_copy_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed) {
  const std::vector<int64_t> ordinary = ordinary_tokens(vocabulary);
  TaskRandom random(mix_seed(seed, 1));
  const int64_t begin = vocabulary.copy_begins ? 1 : 0;
  Task task{.half = kCopyHalf};
  for (int64_t n = 0; n < prompts; ++n) {
    std::vector<int64_t> first, other;
    for (int64_t t = 0; t < kCopyHalf; ++t) first.push_back(random.choose(ordinary));
    for (int64_t t = 0; t < kCopyHalf; ++t) other.push_back(random.choose(ordinary));
    TaskPrompt prompt;
    if (begin) prompt.clean.push_back(vocabulary.begin_token);
    prompt.corrupt = prompt.clean;
    prompt.clean.insert(prompt.clean.end(), first.begin(), first.end());
    prompt.corrupt.insert(prompt.corrupt.end(), other.begin(), other.end());
    for (std::vector<int64_t>* text : {&prompt.clean, &prompt.corrupt})
      text->insert(text->end(), first.begin(), first.end());
    for (int64_t t = 0; t < kCopyHalf; ++t) {
      prompt.reads.push_back(
          {begin + kCopyHalf - 1 + t, {first[static_cast<size_t>(t)]}, {other[static_cast<size_t>(t)]}});
    }
    task.prompts.push_back(std::move(prompt));
  }
  return task;
}

}  // namespace openwork
