// All work on models happens on two threads: quick work on one, long work on the other, each one piece at a time, so
// that a prompt is answered while a circuit is found, however long a pass of that takes. The long thread is niced:
// where both want the same core, quick work has it. Both lines are short: who comes when they are full is refused.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace openwork::serve {

using Task = std::function<void()>;  // must not throw

// One thread and what waits for it, first come, first served.
class WorkLine {
 public:
  // `prepare` is run first, on the line's own thread.
  WorkLine(size_t most, Task prepare);
  ~WorkLine();
  WorkLine(const WorkLine&) = delete;
  WorkLine& operator=(const WorkLine&) = delete;

  bool add(Task task);  // false: the line is full, or stopping

  enum class Waiting { kFinish, kDrop };
  void close(Waiting waiting);  // refuses what comes; what waits is finished or dropped
  void join();                  // waits for the rest; after close

 private:
  void run();
  Task take();  // none: the end

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread worker_;
};

class WorkQueue {
 public:
  // `prepare` is run first on each of the two threads.
  WorkQueue(size_t most_quick, size_t most_long, const Task& prepare = nullptr);
  ~WorkQueue();

  // False: the line is full, or the queue is stopping.
  bool add_quick(Task task) { return quick_.add(std::move(task)); }
  bool add_long(Task task) { return long_.add(std::move(task)); }

  // Refuses what comes from now on, finishes what is quick, drops long work that has not begun, and waits for the
  // rest. Long work that runs must be told to end by those who know it.
  void stop();

 private:
  WorkLine quick_, long_;
};

}  // namespace openwork::serve
