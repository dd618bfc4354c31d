#include "train/run_clock.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/progress.h"

namespace openwork {

RunClock::RunClock(int64_t steps, double minutes, Ranks& ranks)
    : steps_(steps), minutes_(minutes), ranks_(ranks), news_(at::zeros({2}, at::kDouble)) {}

void RunClock::start() {
  start_ = std::chrono::steady_clock::now();
  take_news(start_news());
}

double RunClock::seconds() const {
  return before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

Ranks::Wait RunClock::start_news() {
  news_ = at::tensor({static_cast<double>(signals_.seen()), ranks_.is_first() ? seconds() : 0}, at::kDouble);
  return ranks_.start_max(news_);
}

void RunClock::take_news(const Ranks::Wait& wait) {
  wait();
  if (ranks_.count() == 1) start_news();  // nobody to wait for: the newest
  agreed_signal_ = static_cast<int>(news_.data_ptr<double>()[0]);
  agreed_seconds_ = news_.data_ptr<double>()[1];
}

int RunClock::signal() const {
  return agreed_signal_;
}

bool RunClock::finished(int64_t step) const {
  return steps_ > 0 ? step >= steps_ : agreed_seconds_ >= 60 * minutes_;
}

double RunClock::progress(int64_t step) const {
  if (steps_ > 0) return (static_cast<double>(step) + 0.5) / static_cast<double>(steps_);
  return std::min(1.0, agreed_seconds_ / (60 * minutes_));
}

uint64_t RunClock::total() const {
  return static_cast<uint64_t>(steps_ > 0 ? steps_ : std::llround(60 * minutes_));
}

uint64_t RunClock::done(int64_t step) const {
  return static_cast<uint64_t>(steps_ > 0 ? step : std::llround(agreed_seconds_));
}

std::optional<nlohmann::json> read_checkpoint(const CheckpointFolder& checkpoints, Ranks& ranks,
                                              const nlohmann::json& identity,
                                              const std::filesystem::path& folder, const std::string& name) {
  const at::Tensor latest = at::tensor({checkpoints.latest().value_or(-1)}, at::kLong);
  ranks.broadcast(latest);
  const int64_t step = latest.item<int64_t>();
  if (step < 0) {
    note("nothing to resume: starting at step 0");
    return std::nullopt;
  }
  nlohmann::json state = checkpoints.read_state(step);
  check_identity(state, identity, folder, name);
  return state;
}

}  // namespace openwork
