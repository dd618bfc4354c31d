// Answers that were given lately, by what was asked. Models do not change while they are served, so an answer stays
// right; the oldest go when all together have more bytes than the cache holds.
#pragma once
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "serve/reply.h"

namespace openwork::serve {

class AnswerCache {
 public:
  explicit AnswerCache(size_t most_bytes) : most_bytes_(most_bytes) {}

  std::optional<Answer> find(const std::string& key);
  // An answer of more than a quarter of all that is held is not kept.
  void add(const std::string& key, const Answer& answer);
  size_t bytes() const;

 private:
  struct Entry {
    std::string key;
    Answer answer;
    size_t bytes() const { return key.size() + answer.body->size(); }
  };
  void drop_last();

  const size_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
  std::unordered_map<std::string, std::list<Entry>::iterator> places_;
  size_t bytes_ = 0;
};

}  // namespace openwork::serve
