// Progress on standard error: a bar that redraws itself on a terminal, a plain line now and then elsewhere,
// nothing when quiet. Results never go here; they go to standard output.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace openwork {

// Turns all notes and bars off (`--quiet`) or on again.
void set_quiet(bool quiet);
bool is_quiet();

// One line on standard error, unless quiet.
void note(std::string_view line);

// Time left, by what `done` of `total` took since; `skipped` of them were done before. None while nothing is.
std::optional<double> seconds_left(double seconds, uint64_t done, uint64_t skipped, uint64_t total);

// What a watcher is told: how far the work of that name is; `finished` once, when it ends one way or another.
struct ProgressState {
  std::string_view name, unit, detail;
  uint64_t done = 0, total = 0;  // total 0: unknown
  bool finished = false;
};

// From now on progress is told to `watcher` (at most twenty times a second, quiet or not) in place of standard
// error; an empty one puts that back. What it throws ends the work, except where that has finished.
using ProgressWatcher = std::function<void(const ProgressState&)>;
void watch_progress(ProgressWatcher watcher);

// `name` then how much of `total` is done, with time left; total 0 means unknown.
class Progress {
 public:
  Progress(std::string name, uint64_t total, std::string unit = "");
  ~Progress();  // ends the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void skip(uint64_t amount) {
    done_ += amount, skipped_ += amount;
  }  // done before: says nothing of the speed
  void advance(uint64_t amount) { set(done_ + amount); }
  void set(uint64_t done, std::string_view detail = "");

 private:
  void draw(bool last);
  ProgressState state(bool finished) const;

  std::string name_, unit_, detail_;
  uint64_t total_, done_ = 0, skipped_ = 0;
  bool terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_draw_;
};

}  // namespace openwork
