// The pickle machine's working memory: a stack of values, marks that say where a group of them begins, and
// the memo of values noted for later. Misuse by a damaged pickle is an error, never a read outside.
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/pickle.h"

namespace openwork {

[[noreturn]] void refuse_pickle(std::string_view what, std::string_view origin);

class PickleStack {
 public:
  explicit PickleStack(std::string_view origin) : origin_(origin) {}

  void push(PickleValue value) { values_.push_back(value); }
  void mark() { marks_.push_back(values_.size()); }

  // Never takes what lies below the last mark.
  PickleValue pop() {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (values_.size() <= floor) refuse_pickle("its stack runs empty", origin_);
    const PickleValue value = values_.back();
    values_.pop_back();
    return value;
  }

  std::vector<PickleValue> pop_last(size_t count) {
    std::vector<PickleValue> taken(count);
    for (size_t i = count; i-- > 0;) taken[i] = pop();
    return taken;
  }

  std::vector<PickleValue> pop_to_mark() {
    if (marks_.empty()) refuse_pickle("a mark is missing", origin_);
    const auto first = values_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue> taken(first, values_.end());
    values_.erase(first, values_.end());
    marks_.pop_back();
    return taken;
  }

  // Notes the topmost value, which stays where it is.
  void remember(uint32_t place) {
    const PickleValue value = pop();
    memo_[place] = value;
    push(value);
  }

  void recall(uint32_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) refuse_pickle("it recalls what it never noted", origin_);
    push(found->second);
  }

  uint32_t remembered() const { return static_cast<uint32_t>(memo_.size()); }

 private:
  std::string_view origin_;
  std::vector<PickleValue> values_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, PickleValue> memo_;
};

}  // namespace openwork
