// Long work by its name: how far it is, how it ended, and who still wants it. Requests that mean the same share one
// job; it ends early when all who asked have cancelled, when nobody has looked for a minute, or when it has taken too
// long.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "serve/reply.h"
#include "serve/work.h"
#include "serve/work_queue.h"

namespace openwork::serve {

enum class JobState { kQueued, kRunning, kDone, kFailed, kCancelled };
const char* state_name(JobState state);

struct JobLimits {
  std::chrono::seconds unwatched{60}, longest{1800}, kept{300};
  size_t most_kept = 64;
};

// What a job was at some moment.
struct JobStatus {
  JobState state = JobState::kQueued;
  std::string stage;
  uint64_t done = 0, all = 0;
  Answer result;        // when done
  std::string error;    // when failed
  uint64_t change = 0;  // counts changes

  bool ended() const { return state >= JobState::kDone; }
};

class Job : public Work {
 public:
  using Clock = std::chrono::steady_clock;

  Job(std::string id, std::string key, const JobLimits& limits);

  const std::string& id() const { return id_; }
  const std::string& key() const { return key_; }

  // By those who ask. Looking keeps it alive; a glance does not.
  JobStatus look();
  bool ended() const;
  bool is_cancelled() const { return cancelled_; }  // a running one ends after its pass
  JobStatus wait(uint64_t change,
                 std::chrono::milliseconds most);  // until it differs from that change, or so long
  void join();
  void leave();  // cancels where nobody is left
  void cancel();
  Clock::time_point ended_at() const;

  // By the worker.
  void run(const std::function<Answer(Work&)>& work);
  void tell(const std::string& stage, uint64_t done, uint64_t all) override;

 private:
  void end(JobState state, Answer result, std::string error);

  const std::string id_, key_;
  const JobLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  JobStatus status_;
  Clock::time_point seen_, started_, ended_;
  std::atomic<bool> cancelled_{false};
  std::atomic<int> holders_{1};
};

class Jobs {
 public:
  Jobs(WorkQueue& queue, JobLimits limits) : queue_(queue), limits_(limits) {}

  // Joins the job of that key where one is on its way, or begins one; null where the queue is full or all have been cancelled.
  std::shared_ptr<Job> begin(const std::string& key, std::function<Answer(Work&)> work);
  std::shared_ptr<Job> find(const std::string& id);  // null: unknown
  void cancel_all();                                 // and whatever would come

 private:
  void forget_old();

  WorkQueue& queue_;
  const JobLimits limits_;
  std::mutex mutex_;
  bool closed_ = false;
  std::map<std::string, std::shared_ptr<Job>> jobs_;  // by id
};

// What GET /api/jobs/ID says.
nlohmann::json describe_job(const Job& job, const JobStatus& status);

}  // namespace openwork::serve
