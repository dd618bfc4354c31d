#include "serve/work_queue.h"

#include <sys/resource.h>

namespace openwork::serve {
namespace {

constexpr int kLongNice = 5;  // a quarter of a core that quick work wants too

// The calling thread alone, and those it starts; it is no matter where the system will not.
void be_nice() {
  ::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + kLongNice);
}

}  // namespace

WorkLine::WorkLine(size_t most, Task prepare) : most_(most) {
  worker_ = std::thread([this, prepare = std::move(prepare)] {
    if (prepare) prepare();
    run();
  });
}

WorkLine::~WorkLine() {
  close(Waiting::kDrop);
  join();
}

bool WorkLine::add(Task task) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || tasks_.size() >= most_) return false;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

Task WorkLine::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
  if (tasks_.empty()) return nullptr;
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

void WorkLine::run() {
  while (const Task task = take()) task();
}

void WorkLine::close(Waiting waiting) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (waiting == Waiting::kDrop) tasks_.clear();
  }
  changed_.notify_all();
}

void WorkLine::join() {
  if (worker_.joinable()) worker_.join();
}

WorkQueue::WorkQueue(size_t most_quick, size_t most_long, const Task& prepare)
    : quick_(most_quick, prepare), long_(most_long, [prepare] {
        be_nice();
        if (prepare) prepare();
      }) {}

WorkQueue::~WorkQueue() {
  stop();
}

void WorkQueue::stop() {
  long_.close(WorkLine::Waiting::kDrop);
  quick_.close(WorkLine::Waiting::kFinish);
  quick_.join();
  long_.join();
}

}  // namespace openwork::serve
