#include "serve/jobs.h"

#include <algorithm>

#include "base/error.h"
#include "serve/secret.h"

namespace openwork::serve {

const char* state_name(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kRunning:
      return "running";
    case JobState::kDone:
      return "done";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      break;
  }
  return "cancelled";
}

Job::Job(std::string id, std::string key, const JobLimits& limits)
    : id_(std::move(id)), key_(std::move(key)), limits_(limits), seen_(Clock::now()) {}

JobStatus Job::look() {
  const std::lock_guard lock(mutex_);
  seen_ = Clock::now();
  return status_;
}

JobStatus Job::wait(uint64_t change, std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return status_.change != change; });
  seen_ = Clock::now();
  return status_;
}

bool Job::ended() const {
  const std::lock_guard lock(mutex_);
  return status_.ended();
}

Job::Clock::time_point Job::ended_at() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Job::join() {
  const std::lock_guard lock(mutex_);
  seen_ = Clock::now();
  ++holders_;
}

void Job::leave() {
  if (--holders_ <= 0) cancel();
}

void Job::cancel() {
  cancelled_ = true;
  const std::lock_guard lock(mutex_);
  if (status_.state == JobState::kQueued) {  // a running one ends itself after its pass
    status_.state = JobState::kCancelled;
    ++status_.change;
    ended_ = Clock::now();
    changed_.notify_all();
  }
}

void Job::end(JobState state, Answer result, std::string error) {
  const std::lock_guard lock(mutex_);
  status_.state = state;
  status_.result = std::move(result);
  status_.error = std::move(error);
  ++status_.change;
  ended_ = Clock::now();
  changed_.notify_all();
}

void Job::run(const std::function<Answer(Work&)>& work) {
  {
    const std::lock_guard lock(mutex_);
    if (status_.ended()) return;
    status_.state = JobState::kRunning;
    started_ = Clock::now();
    ++status_.change;
    changed_.notify_all();
  }
  try {
    end(JobState::kDone, work(*this), "");
  } catch (const WorkCancelled&) {
    end(JobState::kCancelled, {}, "");
  } catch (const std::exception& error) {
    const std::string_view line = error.what();
    end(JobState::kFailed, {}, printable(line.substr(0, line.find('\n')), 1000));
  }
}

void Job::tell(const std::string& stage, uint64_t done, uint64_t all) {
  {
    const std::lock_guard lock(mutex_);
    status_.stage = stage, status_.done = done, status_.all = all;
    ++status_.change;
    changed_.notify_all();
    const Clock::time_point now = Clock::now();
    if (now - seen_ > limits_.unwatched) cancelled_ = true;
    if (now - started_ > limits_.longest)
      fail("it took too long", "long work", "ask for less: fewer prompts, nodes or models");
  }
  if (cancelled_) throw WorkCancelled{};
}

std::shared_ptr<Job> Jobs::begin(const std::string& key, std::function<Answer(Work&)> work) {
  const std::lock_guard lock(mutex_);
  if (closed_) return nullptr;
  for (const auto& [id, job] : jobs_) {
    if (job->key() != key || job->ended() || job->is_cancelled()) continue;
    job->join();
    return job;
  }
  forget_old();
  if (jobs_.size() >= limits_.most_kept) return nullptr;
  auto job = std::make_shared<Job>(make_secret(8), key, limits_);
  if (!queue_.add_long([job, work = std::move(work)] { job->run(work); })) return nullptr;
  jobs_[job->id()] = job;
  return job;
}

// Those that ended a while ago; where still too many are kept, the one that ended first.
void Jobs::forget_old() {
  const Job::Clock::time_point now = Job::Clock::now();
  const auto ended = [](const auto& entry) { return entry.second->ended(); };
  std::erase_if(jobs_, [&](const auto& entry) {
    return ended(entry) && now - entry.second->ended_at() > limits_.kept;
  });
  while (jobs_.size() >= limits_.most_kept) {
    auto oldest = jobs_.end();
    for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
      if (ended(*it) && (oldest == jobs_.end() || it->second->ended_at() < oldest->second->ended_at()))
        oldest = it;
    }
    if (oldest == jobs_.end()) return;
    jobs_.erase(oldest);
  }
}

std::shared_ptr<Job> Jobs::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second;
}

void Jobs::cancel_all() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& [id, job] : jobs_) job->cancel();
}

nlohmann::json describe_job(const Job& job, const JobStatus& status) {
  nlohmann::json json = {{"job", job.id()},       {"state", state_name(status.state)},
                         {"stage", status.stage}, {"done", status.done},
                         {"all", status.all},     {"result", nullptr},
                         {"error", nullptr}};
  if (status.state == JobState::kDone) json["result"] = nlohmann::json::parse(*status.result.body);
  if (status.state == JobState::kFailed) json["error"] = status.error;
  return json;
}

}  // namespace openwork::serve
