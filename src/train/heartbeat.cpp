#include "train/heartbeat.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace openwork {

using Clock = std::chrono::steady_clock;

struct Heartbeat::State {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0, count = 1;
  std::chrono::milliseconds timeout{};
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false, ended = false;  // asked to stop; the beating thread has
  std::atomic<int64_t> rounds = 0;   // of beats that were answered
  std::thread thread, guard;

  struct Peer {
    int64_t beats = -1;
    Clock::time_point heard = Clock::now();
  };
  std::vector<Peer> peers;

  static std::string key_of(int rank) { return fmt::format("beat/{}", rank); }

  bool stopping() {
    const std::lock_guard lock(mutex);
    return stop;
  }

  void watch(int other) {
    Peer& peer = peers[static_cast<size_t>(other)];
    const int64_t beats = store->add(key_of(other), 0);
    if (beats != peer.beats) peer = {beats, Clock::now()};
    if (Clock::now() - peer.heard < timeout) return;
    const double seconds = std::chrono::duration<double>(timeout).count();
    end_lost(fmt::format("rank {} has not been heard of for {:.0f} s", other, seconds), rank, count);
  }

  void beat() {
    store->add(key_of(rank), 1);
    for (int other = 0; other < count; ++other) {
      if (other != rank && !stopping()) watch(other);
    }
  }

  std::chrono::milliseconds interval() const {
    return std::clamp<std::chrono::milliseconds>(timeout / 5, std::chrono::milliseconds(20),
                                                 std::chrono::seconds(5));
  }

  // Counts turns of its own and not the clock's time: a job that is stopped and continued as a whole goes on.
  void watch_store() {
    int64_t seen = -1, turns = 0;
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, interval(), [this] { return ended; })) {
      turns = rounds == seen ? turns + 1 : 0;
      seen = rounds;
      if (turns * interval() < timeout) continue;
      const double seconds = std::chrono::duration<double>(timeout).count();
      end_lost(fmt::format("rank 0, where the ranks meet, has not answered for {:.0f} s", seconds), rank,
               count);
    }
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!stop) {
      lock.unlock();
      try {
        beat();
        ++rounds;
      } catch (const std::exception&) {
        // The store is the first rank's: its end is news of its own, unless this one is leaving too.
        if (!stopping()) end_lost("rank 0 was lost", rank, count);
      }
      lock.lock();
      changed.wait_for(lock, interval(), [this] { return stop; });
    }
  }
};

Heartbeat::Heartbeat(c10::intrusive_ptr<c10d::Store> store, int rank, int count,
                     std::chrono::milliseconds timeout)
    : state_(std::make_unique<State>()) {
  state_->store = std::move(store), state_->rank = rank, state_->count = count, state_->timeout = timeout;
  state_->peers.resize(static_cast<size_t>(count));
  state_->thread = std::thread([state = state_.get()] { state->run(); });
  state_->guard = std::thread([state = state_.get()] { state->watch_store(); });
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
  }
  state_->changed.notify_all();
  state_->guard.join();
}

void end_lost(const std::string& what, int rank, int count) {
  std::fflush(stdout);
  const Error error(Error::Kind::kFailure, what, fmt::format("rank {} of {}", rank, count),
                    "start the job again; --resume continues a training run");
  fmt::print(stderr, "openwork: error: {}\n", error.what());
  std::fflush(stderr);
  std::_Exit(error.exit_code());
}

}  // namespace openwork
