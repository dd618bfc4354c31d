// What the makers of tasks share: a stream of random choices, and words looked up in a tokenizer. Only the
// task*.cpp files and the tests of the suite (analyze/capability) include this.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/circuits/task.h"
#include "base/philox.h"

namespace openwork {

// Choices drawn one after another, the same for the same seed everywhere.
class TaskRandom {
 public:
  explicit TaskRandom(uint64_t seed) : seed_(seed) {}

  size_t below(size_t count) {
    const uint32_t word = philox(seed_, counter_++).word[0];
    return static_cast<size_t>((static_cast<uint64_t>(word) * count) >> 32);
  }
  template <typename T>
  const T& choose(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  // `count` different entries, in the order drawn.
  std::vector<std::string> choose_different(const std::vector<std::string>& list, size_t count);

 private:
  uint64_t seed_, counter_ = 0;
};

// The one token that `text` is, or none.
std::optional<int64_t> single_token(const Tokenizer& tokenizer, std::string_view text);

// Those of `words` that are one token with `before` (a space, mostly) in front of them.
std::vector<std::string> single_token_words(const Tokenizer& tokenizer, const std::vector<std::string>& words,
                                            std::string_view before = " ");

// A text's tokens behind the beginning tokens.
std::vector<int64_t> task_tokens(const TaskVocabulary& vocabulary, std::string_view text);

// Every ordinary token: those that a tokenizer keeps for itself say too much to be drawn from.
std::vector<int64_t> ordinary_tokens(const TaskVocabulary& vocabulary);

const Tokenizer& need_tokenizer(const TaskVocabulary& vocabulary, const std::string& task);

[[noreturn]] void refuse_tokenizer(const std::string& task, const std::string& why);

Task make_copy_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed);
Task make_names_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed);  // ioi
Task make_years_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed);  // greater-than
Task make_docstring_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed);
Task make_opposite_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed);
Task read_task_file(const std::string& path, const TaskVocabulary& vocabulary, int64_t prompts);

}  // namespace openwork
