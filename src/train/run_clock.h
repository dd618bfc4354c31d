// How far a run has come, on every rank alike: counted in steps, or in minutes by the first rank's clock.
// Signals (train/stop.h) end it early. What ranks must agree on, the signal and the clock, goes round as news
// while a step runs:
//   RunClock clock(steps, minutes, ranks);  clock.start();
//   while (!clock.is_over(step)) { auto wait = clock.start_news();  ...a step...;  clock.take_news(wait); }
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "train/checkpoint.h"
#include "train/identity.h"
#include "train/ranks.h"
#include "train/stop.h"

namespace openwork {

class RunClock {
 public:
  RunClock(int64_t steps, double minutes, Ranks& ranks);  // one of the two is 0

  void start();
  void add_before(double seconds) { before_ = seconds; }  // those of a run that is resumed
  double seconds() const;

  Ranks::Wait start_news();
  void take_news(const Ranks::Wait& wait);
  int signal() const;  // SIGINT or SIGTERM where a rank was told to stop; 0 while none was

  bool finished(int64_t step) const;
  bool is_over(int64_t step) const { return finished(step) || signal() != 0; }
  double progress(int64_t step) const;  // the share of the run that is done at the middle of step `step`

  // For a progress bar.
  uint64_t total() const;
  uint64_t done(int64_t step) const;
  const char* unit() const { return steps_ > 0 ? " steps" : " s"; }

 private:
  StopSignals signals_;
  int64_t steps_;
  double minutes_, before_ = 0;
  Ranks& ranks_;
  at::Tensor news_;  // [2] float64 on the host: signal, the first rank's seconds; on their way between ranks
  int agreed_signal_ = 0;
  double agreed_seconds_ = 0;  // what all ranks have: changes when news are taken, never while they travel
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The state.json of the newest checkpoint, the same on all ranks; none (with a note) where there is none.
// Fails where it is of another run (identity.h).
std::optional<nlohmann::json> read_checkpoint(const CheckpointFolder& checkpoints, Ranks& ranks,
                                              const nlohmann::json& identity,
                                              const std::filesystem::path& folder, const std::string& name);

}  // namespace openwork
