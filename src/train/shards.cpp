#include "train/shards.h"

#include <algorithm>

namespace openwork {

ShardPlan::ShardPlan(int64_t numbers, int rank, int ranks, int64_t chunk_bytes)
    : numbers_(numbers), rank_(rank), ranks_(ranks) {
  if (ranks == 1) {
    padded_ = numbers;
    if (numbers > 0) chunks_.push_back({0, numbers});
    return;
  }
  const int64_t row = ranks * kBlock;  // one block for each rank
  const int64_t rows = std::max<int64_t>(1, chunk_bytes / static_cast<int64_t>(sizeof(float)) / row);
  while (padded_ < numbers) {
    const int64_t left = (numbers - padded_ + row - 1) / row;
    chunks_.push_back({padded_, std::min(rows, left) * kBlock});
    padded_ += size(chunks_.back());
  }
}

}  // namespace openwork
