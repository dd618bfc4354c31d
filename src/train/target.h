// What a run of sparsify aims at. A target is a held-out loss with hard gates; the training loss that leads
// there stands higher (other text, sampled gates, a learning rate that is not zero yet), so the run is
// measured on held-out blocks on its way, at equal shares of it, and the multiplier's target is
//   wanted + gap,   gap = smoothed training loss - held-out loss, at the latest measurement (at first 0.15)
// While the learning rate is high not even a dense model has the loss that it ends with. Where a control was
// trained its held-out loss at the same share of the run, plus a margin, stands for `wanted` as long as it is
// above it; else the schedule's slack (schedule.h) does.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace openwork {

struct HeldOutPoint {
  double loss = 0, kept_edges = 1;
};

// The held-out loss of a finished run by the share of its tokens, from what was measured on its way.
class HeldOutCurve {
 public:
  HeldOutCurve() = default;
  HeldOutCurve(const std::filesystem::path& metrics, double tokens, double final_loss);

  bool empty() const { return points_.empty(); }
  double at(double progress) const;

 private:
  std::vector<std::pair<double, double>> points_;  // share, loss
};

struct HeldOutTarget {
  double wanted = 0;          // nats per token at the end of the run
  HeldOutCurve control = {};  // where given: max(wanted, control + margin) on the way
  double margin = 0;

  double at(double progress) const;
};

// The measurements of one run and the gap they leave; the loop saves its state.
class Measurements {
 public:
  explicit Measurements(int64_t count) : count_(count) {}

  // Once in each of `count` equal shares of the run, not at its beginning.
  bool is_due(double progress);
  void take(const HeldOutPoint& point, std::optional<double> training_loss, int64_t tokens);
  double gap() const { return gap_; }
  // The newest measurement's keys for a line of metrics, once.
  nlohmann::json take_line();

  nlohmann::json state() const;
  void restore(const nlohmann::json& state);

 private:
  int64_t count_, done_ = 0;  // done_: shares of the run
  double gap_ = 0.15;
  nlohmann::json line_ = nlohmann::json::object();
};

}  // namespace openwork
