// LossCurve of loop.h: a control's training loss, followed step by step. Both runs see the same batches, so
// that the difference tells the gates' cost apart from the learning rate's and the data's.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "train/loop.h"

namespace openwork {

LossCurve::LossCurve(const std::filesystem::path& metrics) {
  std::ifstream file(metrics);
  double last = 0;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json.contains("loss")) continue;
    const double step = json["step"];
    points_.emplace_back((last + step) / 2, json["loss"]);
    last = step;
  }
  if (points_.empty()) {
    fail_input("no losses to follow", metrics.string(), "run the control again, in a new --out");
  }
}

double LossCurve::at(double step) const {
  const auto next = std::lower_bound(points_.begin(), points_.end(), std::pair(step, -1e300));
  if (next == points_.begin()) return points_.front().second;
  if (next == points_.end()) return points_.back().second;
  const auto& [before, from] = *std::prev(next);
  const auto& [after, to] = *next;
  return from + (to - from) * (step - before) / (after - before);
}

}  // namespace openwork
