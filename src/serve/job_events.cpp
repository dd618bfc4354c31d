#include "serve/job_events.h"

#include <fmt/format.h>

#include <thread>

namespace openwork::serve {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds kBetweenEvents = 100ms, kSilence = 5s;

std::string event(const char* name, const std::string& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);  // JSON has no line breaks of its own
}

std::string describe(const JobStatus& status) {
  switch (status.state) {
    case JobState::kQueued:
      return event("queued", "{}");
    case JobState::kRunning:
      return event("progress",
                   to_text({{"stage", status.stage}, {"done", status.done}, {"all", status.all}}));
    case JobState::kDone:
      return event("result", *status.result.body);
    case JobState::kFailed:
      return event("error", to_text({{"error", status.error}}));
    case JobState::kCancelled:
      break;
  }
  return event("cancelled", "{}");
}

}  // namespace

std::string JobEvents::next() {
  if (ended_) return "";
  std::this_thread::sleep_until(told_ + (job_->ended() ? 0ms : kBetweenEvents));
  const JobStatus status = job_->wait(change_, kSilence);
  told_ = std::chrono::steady_clock::now();
  if (status.change == change_) return ": alive\n\n";
  change_ = status.change;
  ended_ = status.ended();
  return describe(status);
}

}  // namespace openwork::serve
