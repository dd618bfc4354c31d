// Exchanges between ranks that are under way, a few at a time: each holds memory of its own until it is
// waited for, and more of them would not be faster.
//   InFlight exchanges;  for (...) exchanges.add([&] { return ranks.start_gather(chunk); });  exchanges.finish();
#pragma once
#include <deque>
#include <functional>

#include "train/ranks.h"

namespace openwork {

class InFlight {
 public:
  static constexpr size_t kMost = 4;

  // Waits for the oldest where there are enough, then begins another.
  void add(const std::function<Ranks::Wait()>& begin) {
    if (waits_.size() >= kMost) wait_for_oldest();
    waits_.push_back(begin());
  }
  void finish() {
    while (!waits_.empty()) wait_for_oldest();
  }

 private:
  void wait_for_oldest() {
    waits_.front()();
    waits_.pop_front();
  }
  std::deque<Ranks::Wait> waits_;
};

}  // namespace openwork
