// A job as server-sent events: queued, progress (at most ten a second), then result, error or cancelled, which is the
// last. While nothing happens a comment is sent, so that a connection that is gone is noticed.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "serve/jobs.h"

namespace openwork::serve {

class JobEvents {
 public:
  explicit JobEvents(std::shared_ptr<Job> job) : job_(std::move(job)) {}

  // The next lines to send, after waiting for them; empty only where the last event has been sent.
  std::string next();
  bool ended() const { return ended_; }

 private:
  std::shared_ptr<Job> job_;
  uint64_t change_ = ~uint64_t{0};  // the first look is a change
  bool ended_ = false;
  std::chrono::steady_clock::time_point told_ = {};
};

}  // namespace openwork::serve
