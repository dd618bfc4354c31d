#include "train/runaway.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/median.h"

namespace openwork {
namespace {

constexpr size_t kFewestLines = 50;  // before them there is no usual size: a run's first gradients are large
constexpr double kTimes = 5;
constexpr int kPatience = 5;  // lines

}  // namespace

void RunawayWatch::remember(const std::filesystem::path& metrics) {
  std::ifstream file(metrics);
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (line.is_object() && line.contains("gradient_norm") && line["gradient_norm"].is_number())
      norms_.push_back(line["gradient_norm"]);
  }
}

std::optional<std::string> RunawayWatch::watch(double norm, int64_t step) {
  if (warned_) return std::nullopt;
  const double usual = norms_.size() < kFewestLines ? 0 : median(norms_);
  above_ = usual > 0 && norm > kTimes * usual ? above_ + 1 : 0;
  norms_.push_back(norm);
  if (above_ < kPatience) return std::nullopt;
  warned_ = true;
  return fmt::format(
      "warning: by step {} gradients have grown to {:.3g}, {:.0f} times their usual size, and stay there: "
      "the run may be "
      "running away; lower --lr, or add --weight-decay 0.1",
      step, norm, norm / usual);
}

}  // namespace openwork
