#include "analyze/trace/trace_targets.h"

#include <ATen/ATen.h>

namespace openwork {
namespace {

std::vector<double> to_numbers(const Tensor& values) {
  const Tensor wide = values.to(at::kCPU, at::kDouble).contiguous();
  return {wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel()};
}

}  // namespace

TargetReader::TargetReader(const LinearPass& pass, const TraceSources& sources,
                           const Transcoders* transcoders, int64_t first_target)
    : run_(pass.run()), sources_(sources), transcoders_(transcoders) {
  if (transcoders != nullptr) return;
  shares_.resize(run_.layers.size());
  pass.carry_back(
      logits({first_target}),
      [&](StreamPoint point, int64_t layer, const Tensor& g) {
        if (point == StreamPoint::kOutput) shares_[static_cast<size_t>(layer)] = g.squeeze(1).clone();
      },
      [&](int64_t layer, const Tensor& g) { return pull_mlp(run_, layer, g); });
}

Targets TargetReader::logits(const std::vector<int64_t>& tokens) const {
  const Tensor index = at::tensor(tokens, at::kLong).to(run_.ids.device());
  const Tensor rows = run_.model.unembedding().index_select(0, index);  // [n, D]
  const Norm& norm = run_.model.final_norm();
  Targets targets{.layers = std::vector<int64_t>(tokens.size(), run_.config().layers),
                  .positions = std::vector<int64_t>(tokens.size(), run_.tokens - 1),
                  .directions = fold_reading(run_.config(), norm, rows) / run_.final_scale,
                  .constants = at::zeros({rows.size(0)}, rows.options()),
                  .values = to_numbers(run_.logits.index_select(0, index))};
  if (norm.bias.defined()) targets.constants = targets.constants + at::mv(rows, norm.bias);
  const Tensor& bias = run_.model.unembedding_bias();
  if (bias.defined()) targets.constants = targets.constants + bias.index_select(0, index);
  return targets;
}

Targets TargetReader::nodes(const std::vector<int64_t>& columns) const {
  const auto options = run_.embedding.options();
  const auto count = static_cast<int64_t>(columns.size());
  Targets targets{.layers = {},
                  .positions = {},
                  .directions = at::empty({count, run_.config().width}, options),
                  .constants = at::empty({count}, options),
                  .values = {}};
  std::vector<std::vector<int64_t>> rows(run_.layers.size()), positions(rows.size()), features(rows.size());
  for (size_t n = 0; n < columns.size(); ++n) {
    const TraceNode& node = sources_.node(columns[n]);
    const auto layer = static_cast<size_t>(node.layer);
    targets.layers.push_back(node.layer);
    targets.positions.push_back(node.position);
    rows[layer].push_back(static_cast<int64_t>(n));
    positions[layer].push_back(node.position);
    features[layer].push_back(node.feature);
  }
  Tensor values = at::empty({count}, options);
  const auto index = [&](const std::vector<int64_t>& numbers) {
    return at::tensor(numbers, at::kLong).to(options.device());
  };
  for (size_t l = 0; l < rows.size(); ++l) {
    if (rows[l].empty()) continue;
    const auto layer = static_cast<int64_t>(l);
    const Reading reading = transcoders_ != nullptr
                                ? read_features(layer, index(features[l]), index(positions[l]))
                                : read_mlp(layer, index(positions[l]));
    const Tensor row = index(rows[l]);
    targets.directions.index_copy_(0, row, reading.directions);
    targets.constants.index_copy_(0, row, reading.constants);
    values.index_copy_(0, row, reading.values);
  }
  targets.values = to_numbers(values);
  return targets;
}

TargetReader::Reading TargetReader::read_features(int64_t layer, const Tensor& features,
                                                  const Tensor& positions) const {
  const LayerTranscoder& transcoder = transcoders_->layers[static_cast<size_t>(layer)];
  const FrozenLayer& frozen = run_.layer(layer);
  const Norm& norm = run_.model.layer(layer).norm2;
  const Tensor rows = transcoder.encoder.index_select(0, features);  // [n, D]
  Reading reading{rows, transcoder.encoder_bias.index_select(0, features), {}};
  reading.values = (rows * frozen.mlp_in.index_select(0, positions)).sum(1) + reading.constants;
  if (transcoders_->input == TranscoderInput::kNormed &&
      run_.config().norm_placement == NormPlacement::kBefore) {
    reading.directions =
        fold_reading(run_.config(), norm, rows) / frozen.mlp_scale.index_select(0, positions);
    if (norm.bias.defined()) reading.constants = reading.constants + at::mv(rows, norm.bias);
  }
  return reading;
}

TargetReader::Reading TargetReader::read_mlp(int64_t layer, const Tensor& positions) const {
  const Tensor& share = shares_[static_cast<size_t>(layer)];
  const Tensor g = share.index_select(0, positions);  // [n, D]
  const Tensor pulled = pull_mlp(run_, layer, share.unsqueeze(1)).squeeze(1).index_select(0, positions);
  return {pulled, read_mlp_constants(run_, layer, g, positions),
          (g * run_.layer(layer).mlp_out.index_select(0, positions)).sum(1)};
}

}  // namespace openwork
