#include "analyze/heads/value_norms.h"

#include <ATen/ATen.h>

namespace openwork {

Tensor value_norms(const Transformer& model, int64_t layer, const Tensor& values) {
  const ModelConfig& config = model.config();
  const Tensor by_head = model.layer(layer).attention_output.matrix().t().reshape(
      {config.heads, config.head_size, config.width});
  std::vector<Tensor> norms;
  for (int64_t head = 0; head < config.heads; ++head) {
    const Tensor v = values.select(2, head / config.group_size());  // [B, T, d]
    norms.push_back(at::matmul(v, by_head[head]).to(at::kFloat).norm(2, -1));
  }
  return at::stack(norms, 1);
}

}  // namespace openwork
