#include "model/head_rows.h"

#include <ATen/ATen.h>

namespace openwork {

Tensor head_rows(const Layer& layer, const ModelConfig& config, HeadInput input, bool bias) {
  const auto shape = [&](const Tensor& rows, int64_t per_head) {
    return bias ? rows.reshape({-1, per_head}) : rows.reshape({-1, per_head, rows.size(-1)});
  };
  const int64_t d = config.head_size, index = static_cast<int64_t>(input);
  if (config.qkv_layout == QkvLayout::kSeparate) {
    const Linear& linear = input == HeadInput::kQuery ? layer.query
                           : input == HeadInput::kKey ? layer.key
                                                      : layer.value;
    return shape(bias ? linear.bias : linear.matrix(), d);
  }
  const Tensor rows = bias ? layer.qkv.bias : layer.qkv.matrix();
  if (config.qkv_layout == QkvLayout::kFusedBlocks)
    return shape(rows.chunk(3, 0)[static_cast<size_t>(index)], d);
  return shape(rows, 3 * d).narrow(1, index * d, d);  // [q k v] of each head
}

}  // namespace openwork
