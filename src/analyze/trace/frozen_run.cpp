#include "analyze/trace/frozen_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "model/head_rows.h"

namespace openwork {
namespace {

bool norms_come_before(const ModelConfig& config) {
  return config.norm_placement == NormPlacement::kBefore;
}

// What the forward pass shows of one layer beyond what is kept.
struct Seen {
  Tensor value;                  // [T, G, d]
  Tensor pre, pre_linear, post;  // [T, M]
};

void add_taps(const ModelConfig& config, const Transcoders* transcoders, int64_t index, FrozenLayer& layer,
              Seen& seen, Taps& taps) {
  const auto keep = [&](Site site, Tensor& place) {
    taps.read({site, index}, [&place](const Tensor& x) { place = x[0].contiguous(); });
  };
  keep(Site::kPattern, layer.pattern);
  keep(Site::kNorm1Scale, layer.scale);
  keep(Site::kNorm2Scale, layer.mlp_scale);
  keep(Site::kZ, layer.z);
  keep(Site::kMlpOut, layer.mlp_out);
  if (config.clip_qkv) keep(Site::kValue, seen.value);
  if (transcoders != nullptr) {
    taps.read(transcoder_input(config, transcoders->input, index),
              [&layer](const Tensor& x) { layer.mlp_in = x[0]; });
  } else {
    keep(Site::kMlpPre, seen.pre);
    keep(Site::kMlpPost, seen.post);
    if (config.gated_mlp) keep(Site::kMlpPreLinear, seen.pre_linear);
  }
}

// post = slope * (what the MLP is linear in): the pre-activation, or the other factor of a gated MLP.
Tensor find_slope(const ModelConfig& config, const Seen& seen) {
  const Tensor& linear = config.gated_mlp ? seen.pre_linear : seen.pre;
  return at::where(linear == 0, at::zeros({}, linear.options()), seen.post / linear);
}

// What attention adds when the stream is 0: biases of values, norm and output, and values held by clipping.
Tensor find_attention_constant(const FrozenRun& run, int64_t index) {
  const ModelConfig& config = run.config();
  const Layer& weights = run.model.layer(index);
  const FrozenLayer& layer = run.layer(index);
  const int64_t T = run.tokens, G = config.kv_heads, d = config.head_size;
  Tensor v = at::zeros({T, G * d}, run.embedding.options());
  if (config.qkv_bias) v = v + head_rows(weights, config, HeadInput::kValue, true).reshape({-1});
  if (norms_come_before(config) && weights.norm1.bias.defined()) {
    v = v +
        at::mv(head_rows(weights, config, HeadInput::kValue, false).reshape({G * d, -1}), weights.norm1.bias);
  }
  if (layer.kept.defined()) v = v * layer.kept + layer.clipped;
  v = v.view({T, G, d}).transpose(0, 1);  // [G, T, d]
  if (config.group_size() > 1) v = v.repeat_interleave(config.group_size(), 0);
  const Tensor z = at::matmul(layer.pattern, v).transpose(0, 1).reshape({T, -1});  // [T, H d]
  Tensor out = weights.attention_output(z);
  if (norms_come_before(config)) return out;
  out = fold_writing(config, weights.norm1, out) / layer.scale;
  return weights.norm1.bias.defined() ? out + weights.norm1.bias : out;
}

void freeze_attention(FrozenRun& run, int64_t index, const Seen& seen) {
  const ModelConfig& config = run.config();
  const Layer& weights = run.model.layer(index);
  FrozenLayer& layer = run.layers[static_cast<size_t>(index)];
  const Tensor value = head_rows(weights, config, HeadInput::kValue, false).reshape({-1, config.width});
  const Tensor output = weights.attention_output.matrix();
  if (norms_come_before(config)) {
    layer.value = fold_reading(config, weights.norm1, value).contiguous();
    layer.output = output.contiguous();
    layer.mix = layer.pattern / layer.scale.view({1, 1, -1});  // by the key's scale
  } else {
    layer.value = value.contiguous();
    layer.output = fold_writing(config, weights.norm1, output.t()).t().contiguous();
    layer.mix = layer.pattern / layer.scale.view({1, -1, 1});  // by the query's
  }
  if (config.clip_qkv) {
    const Tensor values = seen.value.reshape({run.tokens, -1});
    layer.kept = (values.abs() < *config.clip_qkv).to(values.dtype());
    layer.clipped = values * (1 - layer.kept);
  }
  const Tensor open = (layer.pattern != 0).flatten(1).any(1).to(at::kCPU);
  for (int64_t h = 0; h < config.heads; ++h) layer.open.push_back(open[h].item<bool>());
  layer.constant = find_attention_constant(run, index);
}

}  // namespace

FrozenRun run_frozen(const Transformer& model, const Transcoders* transcoders, const Tensor& ids) {
  const at::NoGradGuard no_grad;
  const ModelConfig& config = model.config();
  FrozenRun run{model};
  run.tokens = ids.size(0);
  run.ids = ids.unsqueeze(0);
  run.layers.resize(static_cast<size_t>(config.layers));
  std::vector<Seen> seen(run.layers.size());
  Taps taps;
  taps.read({Site::kResidPre, 0}, [&](const Tensor& x) { run.embedding = x[0].contiguous(); });
  taps.read({Site::kFinalScale, -1}, [&](const Tensor& scale) { run.final_scale = scale.reshape({-1}); });
  for (size_t n = 0; n < run.layers.size(); ++n) {
    add_taps(config, transcoders, static_cast<int64_t>(n), run.layers[n], seen[n], taps);
  }
  ForwardOptions options;
  options.taps = &taps;
  options.last_only = true;
  run.logits = model.forward(run.ids, options).reshape({-1});
  for (size_t n = 0; n < run.layers.size(); ++n) {
    freeze_attention(run, static_cast<int64_t>(n), seen[n]);
    if (transcoders == nullptr) run.layers[n].mlp_slope = find_slope(config, seen[n]);
    seen[n] = {};
  }
  return run;
}

Tensor fold_reading(const ModelConfig& config, const Norm& norm, const Tensor& rows) {
  const Tensor weighted = norm.weight.defined() ? rows * norm.weight : rows;
  return config.norm == NormKind::kRmsNorm ? weighted : weighted - weighted.mean(-1, true);
}

Tensor fold_writing(const ModelConfig& config, const Norm& norm, const Tensor& rows) {
  const Tensor centred = config.norm == NormKind::kRmsNorm ? rows : rows - rows.mean(-1, true);
  return norm.weight.defined() ? centred * norm.weight : centred;
}

// The direction into the MLP's own output, before a norm that comes after it. g [..., D], scale [..., 1].
static Tensor pull_norm_after(const FrozenRun& run, int64_t layer, const Tensor& g, const Tensor& scale) {
  if (norms_come_before(run.config())) return g;
  return fold_reading(run.config(), run.model.layer(layer).norm2, g) / scale;
}

Tensor pull_mlp(const FrozenRun& run, int64_t layer, const Tensor& g) {
  const Layer& weights = run.model.layer(layer);
  const FrozenLayer& frozen = run.layer(layer);
  const int64_t P = g.size(0);
  const Tensor scale = frozen.mlp_scale.narrow(0, 0, P).unsqueeze(1);                       // [P, 1, 1]
  Tensor inner = at::matmul(pull_norm_after(run, layer, g, scale), weights.down.matrix());  // [P, n, M]
  inner = inner * frozen.mlp_slope.narrow(0, 0, P).unsqueeze(1);
  const Tensor into = at::matmul(inner, weights.up.matrix());  // [P, n, D]
  return norms_come_before(run.config()) ? fold_reading(run.config(), weights.norm2, into) / scale : into;
}

Tensor read_mlp_constants(const FrozenRun& run, int64_t layer, const Tensor& g, const Tensor& tokens) {
  const Layer& weights = run.model.layer(layer);
  const FrozenLayer& frozen = run.layer(layer);
  const Norm& norm = weights.norm2;
  const bool before = norms_come_before(run.config());
  const Tensor own = pull_norm_after(run, layer, g, frozen.mlp_scale.index_select(0, tokens));
  const Tensor inner =
      at::matmul(own, weights.down.matrix()) * frozen.mlp_slope.index_select(0, tokens);  // [n, M]
  Tensor sum = at::zeros({g.size(0)}, g.options());
  if (weights.down.bias.defined()) sum = sum + at::mv(own, weights.down.bias);
  if (weights.up.bias.defined()) sum = sum + at::mv(inner, weights.up.bias);
  if (norm.bias.defined())
    sum = sum + (before ? at::mv(inner, at::mv(weights.up.matrix(), norm.bias)) : at::mv(g, norm.bias));
  return sum;
}

}  // namespace openwork
