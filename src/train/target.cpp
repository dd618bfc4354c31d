#include "train/target.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace openwork {

HeldOutCurve::HeldOutCurve(const std::filesystem::path& metrics, double tokens, double final_loss) {
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("held_out_loss") || !json.contains("held_out_tokens")) continue;
    points_.emplace_back(json["held_out_tokens"].get<double>() / tokens, json["held_out_loss"]);
  }
  points_.emplace_back(1.0, final_loss);
}

double HeldOutCurve::at(double progress) const {
  const auto next = std::lower_bound(points_.begin(), points_.end(), std::pair(progress, -1e300));
  if (next == points_.begin()) return points_.front().second;
  if (next == points_.end()) return points_.back().second;
  const auto& [before, from] = *std::prev(next);
  const auto& [after, to] = *next;
  return from + (to - from) * (progress - before) / (after - before);
}

double HeldOutTarget::at(double progress) const {
  return control.empty() ? wanted : std::max(wanted, control.at(progress) + margin);
}

bool Measurements::is_due(double progress) {
  const auto share = static_cast<int64_t>(progress * static_cast<double>(count_));
  if (share <= done_) return false;
  done_ = share;
  return true;
}

void Measurements::take(const HeldOutPoint& point, std::optional<double> training_loss, int64_t tokens) {
  line_ = {
      {"held_out_loss", point.loss}, {"held_out_kept_edges", point.kept_edges}, {"held_out_tokens", tokens}};
  if (!training_loss) return;
  gap_ = *training_loss - point.loss;
  line_["gap"] = gap_;
}

nlohmann::json Measurements::take_line() {
  return std::exchange(line_, nlohmann::json::object());
}

nlohmann::json Measurements::state() const {
  return {{"done", done_}, {"gap", gap_}, {"line", line_}};
}

void Measurements::restore(const nlohmann::json& state) {
  done_ = state.at("done"), gap_ = state.at("gap"), line_ = state.at("line");
}

}  // namespace openwork
