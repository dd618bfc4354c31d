// What a head's query, key or value makes of its own copy of the stream, and what heads' outputs are as parts
// of it: the places where architectures differ for a run along graph edges.
#include <ATen/ATen.h>

#include "analyze/circuits/edge_runner.h"
#include "model/head_rows.h"
#include "model/rotary.h"

namespace openwork {
namespace {

// What an RMS norm divides by.
Tensor norm_scale(const Tensor& x, double epsilon) {
  return (x.square().mean(-1, true) + epsilon).sqrt();
}

}  // namespace

EdgeRunner::Projection EdgeRunner::projection(int64_t layer, HeadInput input) const {
  const ModelConfig& config = model_.config();
  const int64_t copies = input == HeadInput::kQuery ? 1 : config.group_size();
  const auto by_head = [&](const Tensor& x) { return copies == 1 ? x : x.repeat_interleave(copies, 0); };
  const Tensor rows = head_rows(model_.layer(layer), config, input, false);  // [heads, d, D]
  Projection result;
  result.weight = by_head(rows.transpose(1, 2));
  Tensor bias;
  if (config.qkv_bias) {
    bias = head_rows(model_.layer(layer), config, input, true);
    result.bias = by_head(bias.unsqueeze(1));
  }
  if (config.qk_norm && input != HeadInput::kValue) {
    const Norm& norm =
        input == HeadInput::kQuery ? model_.layer(layer).query_norm : model_.layer(layer).key_norm;
    result.norm = by_head(norm.weight.view({-1, 1, config.head_size}));
    result.all_rows = rows.flatten(0, 1).t();
    if (bias.defined()) result.all_bias = bias.flatten();
  }
  return result;
}

EdgeRunner::Projection EdgeRunner::Projection::of_head(int64_t head) const {
  const auto one = [&](const Tensor& x) { return x.defined() ? x.narrow(0, head, 1) : x; };
  return {one(weight), one(bias), one(norm), all_rows, all_bias};
}

Tensor EdgeRunner::apply_projection(const Projection& projection, const Tensor& x) const {
  const ModelConfig& config = model_.config();
  Tensor y = at::matmul(x, projection.weight);
  if (projection.bias.defined()) y = y + projection.bias;
  if (projection.norm.defined()) {
    Tensor all =
        at::matmul(x, projection.all_rows);  // every head's, as this head's copy of the stream has it
    if (projection.all_bias.defined()) all = all + projection.all_bias;
    y = y / norm_scale(all, config.norm_epsilon) * projection.norm;
  }
  return config.clip_qkv ? y.clamp(-*config.clip_qkv, *config.clip_qkv) : y;
}

Tensor EdgeRunner::read_stream(int64_t layer, const Tensor& x) const {
  const bool before = model_.config().norm_placement == NormPlacement::kBefore;
  return before ? model_.apply_norm(model_.layer(layer).norm1, x) : x;
}

Tensor EdgeRunner::project(int64_t layer, HeadInput input, const Tensor& x) const {
  const ModelConfig& config = model_.config();
  const Projection& projection = projections_[static_cast<size_t>(layer * 3 + static_cast<int64_t>(input))];
  const int64_t S = x.size(0), H = x.size(1), P = x.size(2), T = x.size(3), d = config.head_size;
  Tensor y = apply_projection(projection, read_stream(layer, x).view({S, H, P * T, -1}));  // [S, H, P T, d]
  y = y.view({S, H, P, T, d}).permute({0, 2, 3, 1, 4}).reshape({S * P, T, H, d});
  if (config.positions == Positions::kRotary && input != HeadInput::kValue) {
    y = rotate(y, make_rotary_table(config.rope, 0, T, y.options()));
  }
  return y.transpose(1, 2);
}

Tensor norm_head_parts(const Transformer& model, int64_t layer, const Tensor& parts, int64_t heads) {
  const ModelConfig& config = model.config();
  if (config.norm_placement == NormPlacement::kBefore) return parts;
  const Layer& weights = model.layer(layer);
  Tensor sum = parts.sum(heads, true);
  if (weights.attention_output.bias.defined()) sum = sum + weights.attention_output.bias;
  return parts / norm_scale(sum, config.norm_epsilon) * weights.norm1.weight;
}

}  // namespace openwork
