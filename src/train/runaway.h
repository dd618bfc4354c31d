// Notices a run that runs away: gradients that stay many times as large as they were, while the loss is still finite.
// Seen where a sharp gate's scores grow without end (docs/results/sparsify.md, run i3).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace openwork {

class RunawayWatch {
 public:
  // `norm`: the gradient's, of one line of metrics. Once in a run: a sentence where five lines on end stand above five times
  // the median of all lines before them.
  std::optional<std::string> watch(double norm, int64_t step);

 private:
  std::vector<double> norms_;
  int above_ = 0;
  bool warned_ = false;
};

}  // namespace openwork
