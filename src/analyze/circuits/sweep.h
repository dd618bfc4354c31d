// A sweep over many interventions that survives being interrupted: results are kept by name in a file beside
// the output, written whole every few seconds, and a later run with the same key takes them from there.
//   Sweep sweep("effects.json.sweep", key);
//   auto metrics = run_sweep(runner, names, interventions, sweep);
//   sweep.finish();                       // the answer is written: the file goes
// The ranks of a job share a sweep: all know what is done, the first reads and writes the file.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/circuits/ablation.h"
#include "train/ranks.h"

namespace openwork {

class Sweep {
 public:
  // `key` is everything the numbers depend on; a file of another key is refused, not overwritten. An empty
  // path keeps nothing.
  Sweep(std::filesystem::path path, nlohmann::json key, Ranks* ranks = nullptr);

  const PromptMetrics* find(const std::string& name) const;
  void add(const std::string& name, PromptMetrics metrics);
  void save();    // now
  void finish();  // removes the file
  size_t size() const { return done_.size(); }
  Ranks* ranks() const { return ranks_; }

  // After each pass, on every rank: saves and throws SweepStopped where stop_signal of one of them says so.
  void stop_where_asked();

  // Stands before every name, before what progress is called and before errors: the model and seed that the next
  // results belong to.
  std::string scope;

  // The signal that ends the sweep after saving it, 0 while there is none.
  std::function<int()> stop_signal;

  // Is told after each pass how many more interventions are done; those known already count too.
  std::function<void(size_t)> advance;

 private:
  bool writes() const { return !path_.empty() && (!ranks_ || ranks_->is_first()); }
  std::string read_kept() const;

  std::filesystem::path path_;
  nlohmann::json key_;
  Ranks* ranks_;
  std::map<std::string, PromptMetrics> done_;
  std::chrono::steady_clock::time_point saved_;
};

// Thrown after what is done was saved.
struct SweepStopped {
  int signal = 0;
};

// The metrics of `interventions`, those the sweep knows already taken from it. `advance` is told how many are
// done.
std::vector<PromptMetrics> run_sweep(AblationRunner& runner, const std::vector<std::string>& names,
                                     const std::vector<Intervention>& interventions, Sweep& sweep,
                                     const std::function<void(size_t)>& advance = nullptr);

}  // namespace openwork
