#include "analyze/circuits/sweep.h"

#include <fmt/format.h>

#include "analyze/circuits/share_rows.h"
#include "base/error.h"
#include "base/progress.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace openwork {
namespace {

constexpr std::chrono::seconds kSaveEvery(5);

}  // namespace

Sweep::Sweep(std::filesystem::path path, nlohmann::json key, Ranks* ranks)
    : path_(std::move(path)), key_(std::move(key)), ranks_(ranks), saved_(std::chrono::steady_clock::now()) {
  std::string kept = writes() ? read_kept() : "";
  share_first(ranks_, kept);
  if (!kept.empty()) done_ = nlohmann::json::parse(kept).get<std::map<std::string, PromptMetrics>>();
}

// What the file holds, as text; nothing where there is none.
std::string Sweep::read_kept() const {
  if (!std::filesystem::exists(path_)) return "";
  const nlohmann::json kept = read_json_file(path_);
  if (!kept.is_object() || !kept.contains("key") || !kept.contains("done") || kept["key"] != key_) {
    fail_input("an interrupted sweep of another command is kept there", path_.string(),
               "finish that one, delete the file, or choose another --sweep FILE");
  }
  note(fmt::format("continuing the sweep in {}: {} done", path_.string(), kept["done"].size()));
  return kept["done"].dump();
}

const PromptMetrics* Sweep::find(const std::string& name) const {
  const auto it = done_.find(scope + name);
  return it == done_.end() ? nullptr : &it->second;
}

void Sweep::add(const std::string& name, PromptMetrics metrics) {
  if (path_.empty()) return;
  done_[scope + name] = std::move(metrics);
  if (std::chrono::steady_clock::now() - saved_ > kSaveEvery) save();
}

void Sweep::save() {
  if (!writes()) return;
  write_text_file(path_, nlohmann::json{{"key", key_}, {"done", done_}}.dump() + "\n");
  saved_ = std::chrono::steady_clock::now();
}

void Sweep::finish() {
  std::error_code ignored;
  if (writes()) std::filesystem::remove(path_, ignored);
}

void Sweep::stop_where_asked() {
  const int signal = share_largest(ranks_, stop_signal ? stop_signal() : 0);
  if (signal == 0) return;
  save();
  throw SweepStopped{signal};
}

std::vector<PromptMetrics> run_sweep(AblationRunner& runner, const std::vector<std::string>& names,
                                     const std::vector<Intervention>& interventions, Sweep& sweep,
                                     const std::function<void(size_t)>& advance) {
  std::vector<PromptMetrics> results(interventions.size());
  std::vector<size_t> open;
  std::vector<Intervention> to_run;
  for (size_t n = 0; n < interventions.size(); ++n) {
    if (const PromptMetrics* known = sweep.find(names[n])) {
      results[n] = *known;
    } else {
      open.push_back(n);
      to_run.push_back(interventions[n]);
    }
  }
  const auto tell = [&](size_t more) {
    if (advance) advance(more);
    if (sweep.advance) sweep.advance(more);
  };
  tell(interventions.size() - open.size());
  runner.run(to_run, [&](const std::vector<size_t>& indices, const std::vector<PromptMetrics>& metrics) {
    for (size_t n = 0; n < indices.size(); ++n) {
      results[open[indices[n]]] = metrics[n];
      sweep.add(names[open[indices[n]]], metrics[n]);
    }
    tell(indices.size());
    sweep.stop_where_asked();
  });
  return results;
}

}  // namespace openwork
