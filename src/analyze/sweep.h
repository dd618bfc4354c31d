// A sweep over many interventions that survives being interrupted: results are kept by name in a file beside
// the output, written whole every few seconds, and a later run with the same key takes them from there.
//   Sweep sweep("effects.json.sweep", key);
//   auto metrics = run_sweep(runner, names, interventions, sweep);
//   sweep.finish();                       // the answer is written: the file goes
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/ablation.h"

namespace openwork {

class Sweep {
 public:
  // `key` is everything the numbers depend on; a file of another key is refused, not overwritten. An empty
  // path keeps nothing.
  Sweep(std::filesystem::path path, nlohmann::json key);

  const PromptMetrics* find(const std::string& name) const;
  void add(const std::string& name, PromptMetrics metrics);
  void save();    // now
  void finish();  // removes the file
  size_t size() const { return done_.size(); }

  // Stands before every name: the model and seed that the next results belong to.
  std::string scope;

  // Asked after each pass; true ends the sweep after saving it.
  std::function<bool()> should_stop;

 private:
  std::filesystem::path path_;
  nlohmann::json key_;
  std::map<std::string, PromptMetrics> done_;
  std::chrono::steady_clock::time_point saved_;
};

// Thrown by run_sweep after it saved what is done, when should_stop said so.
struct SweepStopped {};

// The metrics of `interventions`, those the sweep knows already taken from it. `advance` is told how many are
// done.
std::vector<PromptMetrics> run_sweep(AblationRunner& runner, const std::vector<std::string>& names,
                                     const std::vector<Intervention>& interventions, Sweep& sweep,
                                     const std::function<void(size_t)>& advance = nullptr);

}  // namespace openwork
