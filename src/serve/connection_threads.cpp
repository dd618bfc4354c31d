#include "serve/connection_threads.h"

#include <system_error>
#include <thread>

namespace openwork::serve {
namespace {

thread_local bool refused = false;

}  // namespace

bool ConnectionThreads::is_refused() {
  return refused;
}

void ConnectionThreads::enqueue(std::function<void()> serve) {
  bool room = false;
  {
    const std::lock_guard lock(mutex_);
    room = running_ < most_;
    running_ += room ? 1 : 0;
  }
  if (room) {
    const auto run = [this, serve] {
      serve();
      const std::lock_guard lock(mutex_);
      --running_;
      ended_.notify_all();
    };
    try {
      std::thread(run).detach();
      return;
    } catch (const std::system_error&) {  // the system has no thread left
      const std::lock_guard lock(mutex_);
      --running_;
    }
  }
  refused = true;
  serve();
  refused = false;
}

void ConnectionThreads::shutdown() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return running_ == 0; });
}

}  // namespace openwork::serve
