// A thread for each connection, up to a number; a connection beyond it is told so at once, on the thread that takes
// connections in.
#pragma once
#include <httplib.h>

#include <condition_variable>
#include <functional>
#include <mutex>

namespace openwork::serve {

class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(size_t most) : most_(most) {}

  void enqueue(std::function<void()> serve) override;
  void shutdown() override;  // waits until all are done

  // Asked by the connection's own code: whether it is one too many.
  static bool is_refused();

 private:
  const size_t most_;
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t running_ = 0;
};

}  // namespace openwork::serve
