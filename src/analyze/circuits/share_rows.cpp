#include "analyze/circuits/share_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace openwork {

void share_rows(Ranks* ranks, std::vector<PromptMetrics>& rows, int64_t prompts) {
  if (rank_count(ranks) == 1 || rows.empty()) return;
  const at::Tensor table = at::zeros({static_cast<int64_t>(rows.size()), prompts}, at::kDouble);
  double* const at = table.data_ptr<double>();
  for (size_t n = 0; n < rows.size(); ++n) {
    std::copy(rows[n].begin(), rows[n].end(), at + n * static_cast<size_t>(prompts));
  }
  ranks->sum(table);  // one rank's number and zeros: exact
  for (size_t n = 0; n < rows.size(); ++n) {
    rows[n].assign(at + n * static_cast<size_t>(prompts), at + (n + 1) * static_cast<size_t>(prompts));
  }
}

void share_first(Ranks* ranks, std::vector<double>& numbers) {
  if (rank_count(ranks) == 1 || numbers.empty()) return;
  ranks->broadcast(at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::kDouble));
}

void share_first(Ranks* ranks, std::string& text) {
  if (rank_count(ranks) == 1) return;
  const at::Tensor size = at::tensor({static_cast<int64_t>(text.size())}, at::kLong);
  ranks->broadcast(size);
  text.resize(static_cast<size_t>(size.item<int64_t>()));
  if (!text.empty()) ranks->broadcast(at::from_blob(text.data(), {size.item<int64_t>()}, at::kByte));
}

int share_largest(Ranks* ranks, int number) {
  if (rank_count(ranks) == 1) return number;
  const at::Tensor largest = at::tensor({static_cast<double>(number)}, at::kDouble);
  ranks->start_max(largest)();
  return static_cast<int>(largest.item<double>());
}

}  // namespace openwork
