// Notices a run that runs away: gradients that stay many times as large as they were, while the loss is still finite.
// Seen where a sharp gate's scores grow without end (docs/results/sparsify.md, run i3).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace openwork {

class RunawayWatch {
 public:
  // The lines of a run that goes on, out of its metrics.jsonl, so that its usual size is known at once.
  void remember(const std::filesystem::path& metrics);
  // `norm`: the gradient's, of one line of metrics. Once: a sentence where five lines on end stand above five times
  // the median of all lines before them.
  std::optional<std::string> watch(double norm, int64_t step);

 private:
  std::vector<double> norms_;
  int above_ = 0;
  bool warned_ = false;
};

}  // namespace openwork
