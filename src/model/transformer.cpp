#include "model/transformer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>

#include "base/error.h"
#include "model/architecture.h"
#include "model/kept_heads.h"
#include "model/overflow.h"
#include "ops/few_rows.h"
#include "ops/fused.h"
#include "ops/split.h"

namespace openwork {
namespace {

Tensor activate(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kQuickGelu:
      return x * at::sigmoid(1.702 * x);
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSilu:
      return at::silu(x);
  }
  return x;
}

std::atomic<bool> overflow_is_refused = false;

// By the sum, which one number that is not finite makes so too: it takes no memory. In float64:
// the sum of finite numbers of half precision may not be one of them.
void check_overflow(const Tensor& numbers, const char* where) {
  if (!overflow_is_refused || numbers.is_meta() ||
      std::isfinite(numbers.detach().sum(at::kDouble).item<double>()))
    return;
  fail_input(fmt::format("the model's answer is not finite: its numbers overflow {}",
                         c10::toString(numbers.scalar_type())),
             where, "use --dtype fp32, or check the weights");
}

std::vector<Tensor> apply_together(const Tensor& x, std::initializer_list<const Linear*> layers) {
  std::vector<LinearWeights> weights;
  for (const Linear* layer : layers) weights.push_back(*layer);
  return linear_together(x, weights);
}

// Finds parameters by the part they play, and hands out undefined tensors for those a model has not.
class ParameterFinder {
 public:
  ParameterFinder(const ModelConfig& config, const NamedTensors& parameters)
      : transposed_(config.transposed_linear) {
    const auto specs = list_parameters(architecture_named(config.architecture, "model"), config);
    for (size_t n = 0; n < specs.size(); ++n) {
      if (n >= parameters.size() || parameters[n].first != specs[n].name) {
        fail(fmt::format("parameter {} is missing", specs[n].name), "model",
             "this is a defect: please report it");
      }
      found_[{specs[n].role, specs[n].layer, specs[n].bias}] = parameters[n].second;
    }
  }

  Tensor weight(Role role, int64_t layer = -1) const { return find(role, layer, false); }
  Tensor bias(Role role, int64_t layer = -1) const { return find(role, layer, true); }
  Norm norm(Role role, int64_t layer = -1) const { return {weight(role, layer), bias(role, layer)}; }
  Linear linear(Role role, int64_t layer) const {
    return {{.weight = weight(role, layer), .bias = bias(role, layer), .transposed = transposed_}};
  }

 private:
  Tensor find(Role role, int64_t layer, bool bias) const {
    const auto it = found_.find({role, layer, bias});
    return it == found_.end() ? Tensor() : it->second;
  }

  bool transposed_;
  std::map<std::tuple<Role, int64_t, bool>, Tensor> found_;
};

std::vector<Layer> make_layers(const ModelConfig& config, const NamedTensors& parameters) {
  const ParameterFinder finder(config, parameters);
  std::vector<Layer> layers;
  for (int64_t n = 0; n < config.layers; ++n) {
    layers.push_back({.norm1 = finder.norm(Role::kNorm1, n),
                      .norm2 = finder.norm(Role::kNorm2, n),
                      .query_norm = finder.norm(Role::kQueryNorm, n),
                      .key_norm = finder.norm(Role::kKeyNorm, n),
                      .qkv = finder.linear(Role::kQkv, n),
                      .query = finder.linear(Role::kQuery, n),
                      .key = finder.linear(Role::kKey, n),
                      .value = finder.linear(Role::kValue, n),
                      .attention_output = finder.linear(Role::kAttentionOutput, n),
                      .gate = finder.linear(Role::kGate, n),
                      .up = finder.linear(Role::kUp, n),
                      .down = finder.linear(Role::kDown, n),
                      .gate_bias = finder.weight(Role::kGateBias, n),
                      .gate_idle = finder.weight(Role::kGateIdle, n),
                      .pruned = {}});
  }
  return layers;
}

// [B, H'] of the heads left as [B, H], the others 0.
Tensor spread_heads(const Tensor& values, const PrunedHeads& pruned, int64_t heads) {
  if (!pruned.queries.defined()) return values;
  return at::zeros({values.size(0), heads}, values.options()).index_copy(1, pruned.queries, values);
}

}  // namespace

void GateTotals::add(const AttentionCall& call, const AttentionResult& result, const PrunedHeads& pruned,
                     int64_t heads) {
  penalty.push_back(spread_heads(result.penalty, pruned, heads));
  active.push_back(spread_heads(result.active, pruned, heads));
  cut_active.resize(cuts.size());
  for (size_t n = 0; n < cuts.size() && call.q.size(2) == call.k.size(2); ++n) {
    const auto cut = [rows = std::min(cuts[n], call.q.size(2))](const Tensor& x) {
      return x.narrow(2, 0, rows);
    };
    AttentionCall first = call;
    first.q = cut(call.q), first.k = cut(call.k), first.v = cut(call.v);
    first.draw = {}, first.taps = nullptr;
    cut_active[n].push_back(spread_heads(attend(first).active, pruned, heads));
  }
}

void GateTotals::add_without_heads(const Tensor& x, int64_t heads) {
  const Tensor none = at::zeros({x.size(0), heads}, x.options().dtype(at::kLong));
  penalty.push_back(none.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  active.push_back(none);
  cut_active.resize(cuts.size());
  for (std::vector<Tensor>& layers : cut_active) layers.push_back(none);
}

struct Transformer::Pass {
  const ForwardOptions& options;
  const std::vector<Layer>& layers;  // as they are stored, or in the original shape where somebody looks on
  RotaryTable rotary = {};
  // Nobody looks at q and k: they are turned where the cache takes them in, or by gated attention itself.
  bool turns_in_cache = false, turns_in_attention = false;

  const Layer& layer(int64_t index) const { return layers[static_cast<size_t>(index)]; }
};

// What an MLP adds to the stream is left to the norm that reads it next, whose kernel adds it up on its way. Undefined
// where nothing waits, and always where somebody looks on.
struct Transformer::Stream {
  Tensor x, added = {};

  Tensor sum() const { return added.defined() ? x + added : x; }
};

struct Transformer::Whole {
  std::once_flag once;
  std::vector<Layer> layers;
};

Tensor Linear::operator()(const Tensor& x) const {
  if (!at::GradMode::is_enabled()) return few_rows_linear(x, matrix(), bias);
  return linear_together(x, {*this})[0];
}

Transformer::Transformer(ModelConfig config, NamedTensors parameters)
    : config_(std::move(config)), parameters_(std::move(parameters)) {
  const ParameterFinder finder(config_, parameters_);
  embedding_ = finder.weight(Role::kEmbedding);
  positions_ = finder.weight(Role::kPositions);
  unembedding_ = config_.tied ? embedding_ : finder.weight(Role::kUnembedding);
  unembedding_bias_ = finder.bias(Role::kUnembedding);
  final_norm_ = finder.norm(Role::kFinalNorm);
  layers_ = make_layers(config_, parameters_);
  if (config_.kept_heads.empty()) return;
  whole_ = std::make_shared<Whole>();
  for (int64_t n = 0; n < config_.layers; ++n)
    layers_[static_cast<size_t>(n)].pruned = index_heads(config_, n, device());
}

const std::vector<Layer>& Transformer::whole_layers() const {
  if (!whole_) return layers_;
  std::call_once(whole_->once, [&] {
    const ModelConfig original = with_all_heads(config_);
    whole_->layers = make_layers(original, move_heads(config_, parameters_, original));
    for (int64_t n = 0; n < config_.layers; ++n)
      whole_->layers[static_cast<size_t>(n)].pruned.kept = mark_heads(config_, n, device());
  });
  return whole_->layers;
}

void refuse_overflow(bool on) {
  overflow_is_refused = on;
}

void Transformer::require_grad(bool on) {
  for (auto& [name, tensor] : parameters_) tensor.set_requires_grad(on);
}

void Transformer::add_to_grads() {
  for (Layer& layer : layers_) {
    for (Linear* linear : {&layer.qkv, &layer.query, &layer.key, &layer.value, &layer.attention_output,
                           &layer.gate, &layer.up, &layer.down})
      linear->adds_to_grad = true;
    for (Norm* norm : {&layer.norm1, &layer.norm2, &layer.query_norm, &layer.key_norm})
      norm->adds_to_grad = true;
  }
  final_norm_.adds_to_grad = true;
}

Tensor Transformer::forward(const Tensor& ids, const ForwardOptions& options) const {
  return make_logits(last_hidden(ids, options));
}

Tensor Transformer::last_hidden(const Tensor& ids, const ForwardOptions& options) const {
  Tensor x = run_layers(embed(ids, options), 0, config_.layers, options);
  if (options.cache) options.cache->advance(ids.size(1));
  if (options.last_only) x = x.narrow(1, x.size(1) - 1, 1);
  return normalise(final_norm_, x, options.taps, Site::kFinalScale, Site::kFinalNormalized, -1);
}

Tensor Transformer::embed(const Tensor& ids, const ForwardOptions& options) const {
  const int64_t past = options.cache ? options.cache->length() : 0, tokens = ids.size(1);
  if (past + tokens > config_.context) {
    fail_input(fmt::format("{} tokens, but the model's context is {}", past + tokens, config_.context),
               "prompt", "use a shorter prompt");
  }
  Tensor x =
      tap(options.taps, Site::kEmbed, -1, at::embedding(embedding_, ids, config_.padding_token.value_or(-1)));
  if (!positions_.defined()) return x;
  Tensor positions = positions_.narrow(0, past, tokens).unsqueeze(0).expand_as(x);
  // Who taps may write to what is shown, but not to the weights.
  if (wanted(options.taps, Site::kPositions, -1)) positions = positions.clone(at::MemoryFormat::Contiguous);
  return x + tap(options.taps, Site::kPositions, -1, positions);
}

Tensor Transformer::run_layers(Tensor x, int64_t from, int64_t to, const ForwardOptions& options) const {
  Pass pass{options, options.taps ? whole_layers() : layers_};
  if (config_.positions == Positions::kRotary) {
    pass.rotary = options.cache ? options.cache->rotary(config_.rope, x.size(1), x.options())
                                : rotary_->find(config_.rope, x.size(1), x.options());
  }
  pass.turns_in_cache =
      options.cache && !options.taps && options.output_from == 0 && !at::GradMode::is_enabled();
  pass.turns_in_attention = config_.positions == Positions::kRotary && config_.gate != GateKind::kNone &&
                            !options.taps && !options.cache && options.output_from == 0 &&
                            at::GradMode::is_enabled() &&
                            !(options.gate_totals && !options.gate_totals->cuts.empty());
  // A wrapper is of training passes: whoever taps, caches or cuts a pass has its layers as they are.
  const bool wrapped =
      wrapper_ && at::GradMode::is_enabled() && !options.taps && !options.cache && options.output_from == 0;
  Stream stream{x};
  for (int64_t n = from; n < to; ++n) {
    stream = wrapped ? Stream{wrapper_(stream.sum(), n, options)}
                     : run_layer(stream, n, pass, n + 1 == to ? options.output_from : 0);
  }
  x = stream.sum();
  if (to == config_.layers) check_overflow(x, "the last layer");
  return x;
}

Tensor Transformer::unembed(const Tensor& x, const ForwardOptions& options) const {
  return make_logits(normalise(final_norm_, x, options.taps, Site::kFinalScale, Site::kFinalNormalized, -1));
}

Tensor Transformer::make_logits(const Tensor& normal) const {
  Tensor logits = project_to_vocabulary(normal, unembedding_);
  if (unembedding_bias_.defined()) logits = logits + unembedding_bias_;
  check_overflow(logits, "logits");
  return logits;
}

Transformer::Stream Transformer::run_layer(const Stream& input, int64_t index, const Pass& pass,
                                           int64_t output_from) const {
  Tensor x, z;
  if (!pass.layer(index).pruned.empty()) {
    const NormedSum read = read_stream(
        Block::kAttention, tap(pass.options.taps, Site::kResidPre, index, input.x), input.added, index, pass);
    z = gather_heads(read.normal, index, pass, output_from);
    x = read.sum;
  } else {
    x = tap(pass.options.taps, Site::kResidPre, index, input.sum());
    if (pass.options.gate_totals && config_.gate != GateKind::kNone)
      pass.options.gate_totals->add_without_heads(x, config_.heads);
  }
  return add_blocks(output_from == 0 ? x : x.narrow(1, output_from, x.size(1) - output_from), z, index, pass);
}

Tensor Transformer::finish_layer(const Tensor& x, const Tensor& z, int64_t index,
                                 const ForwardOptions& options) const {
  return add_blocks(x, tap(options.taps, Site::kZ, index, z), index, Pass{options, whole_layers()}).sum();
}

Tensor Transformer::mlp_output(const Tensor& x, int64_t index) const {
  const ForwardOptions options;
  const Pass pass{options, layers_};
  return run_mlp(read_stream(Block::kMlp, x, {}, index, pass).normal, index, pass);
}

Tensor Transformer::apply_norm(const Norm& norm, const Tensor& x) const {
  return normalise(norm, x, nullptr, Site::kFinalScale, Site::kFinalNormalized, -1);
}

// What attention and the MLP add to the stream x, once the heads have gathered z.
Transformer::Stream Transformer::add_blocks(const Tensor& x, const Tensor& z, int64_t index,
                                            const Pass& pass) const {
  const Tensor attention = attention_added(z, index, pass);
  const bool parallel = config_.parallel_residual;
  const NormedSum read = read_stream(Block::kMlp, x, parallel ? Tensor() : attention, index, pass);
  const Stream out{parallel && attention.defined() ? read.sum + attention : read.sum,
                   run_mlp(read.normal, index, pass)};
  if (!pass.options.taps) return out;
  return {tap(pass.options.taps, Site::kResidPost, index, out.sum())};
}

// The stream x once `added`, if anything, is in it, and what a block reads of it: its norm, where norms stand before.
NormedSum Transformer::read_stream(Block block, const Tensor& x, const Tensor& added, int64_t index,
                                   const Pass& pass) const {
  const Taps* taps = pass.options.taps;
  const Layer& layer = pass.layer(index);
  const bool mlp = block == Block::kMlp, norm_before = config_.norm_placement == NormPlacement::kBefore;
  const Norm& norm = mlp ? layer.norm2 : layer.norm1;
  if (!taps && norm_before) return normalise_sum(x, added, row_norm(norm));
  Tensor sum = added.defined() ? x + added : x;
  if (mlp && !config_.parallel_residual) sum = tap(taps, Site::kResidMid, index, sum);
  if (!norm_before) return {sum, sum};
  return {sum, normalise(norm, sum, taps, mlp ? Site::kNorm2Scale : Site::kNorm1Scale,
                         mlp ? Site::kNorm2Normalized : Site::kNorm1Normalized, index)};
}

// A layer without heads adds the bias of its output, where there is one, normed where outputs are; else nothing.
Tensor Transformer::attention_added(const Tensor& z, int64_t index, const Pass& pass) const {
  const Layer& layer = pass.layer(index);
  if (!layer.pruned.empty()) return attention_out(z, index, pass);
  const Tensor& bias = layer.attention_output.bias;
  const bool normed = bias.defined() && config_.norm_placement == NormPlacement::kAfter;
  return normed ? apply_norm(layer.norm1, bias) : bias;
}

// z [B, T - output_from, H, d]: every position is a key, those from output_from on are queries.
Tensor Transformer::gather_heads(const Tensor& input, int64_t index, const Pass& pass,
                                 int64_t output_from) const {
  Heads heads = project_heads(input, index, pass);
  if (output_from > 0) heads.q = heads.q.narrow(1, output_from, heads.q.size(1) - output_from);
  return gather_values(heads, index, pass);
}

Tensor Transformer::attention_out(const Tensor& z, int64_t index, const Pass& pass) const {
  const Taps* taps = pass.options.taps;
  Tensor out = write_heads(z, index, pass);
  if (config_.norm_placement == NormPlacement::kAfter) {
    const Norm& norm = pass.layer(index).norm1;
    out = normalise(norm, out, taps, Site::kNorm1Scale, Site::kNorm1Normalized, index);
  }
  return tap(taps, Site::kAttentionOut, index, out);
}

Transformer::Heads Transformer::project_heads(const Tensor& input, int64_t index, const Pass& pass) const {
  const Taps* taps = pass.options.taps;
  const Layer& layer = pass.layer(index);
  const int64_t B = input.size(0), T = input.size(1), d = config_.head_size;
  const auto by_head = [&](const Tensor& x) { return x.reshape({B, T, -1, d}); };
  Tensor q, k, v;
  if (config_.qkv_layout == QkvLayout::kSeparate) {
    const std::vector<Tensor> parts = apply_together(input, {&layer.query, &layer.key, &layer.value});
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    Tensor qkv = layer.qkv(input);  // [B, T, 3 H d], H the heads that are stored
    if (config_.qkv_layout == QkvLayout::kFusedPerHead) qkv = qkv.view({B, T, -1, 3 * d});
    std::tie(q, k, v) = std::tuple_cat(split_in_three(qkv));
  }
  if (config_.qk_norm) {
    const auto normed = [&](const Tensor& x, const Norm& norm) {
      return openwork::normalise(
          x, {norm.weight, {}, config_.norm_epsilon, /*centred=*/false, norm.adds_to_grad});
    };
    q = normed(q, layer.query_norm), k = normed(k, layer.key_norm);
  }
  if (config_.clip_qkv) {
    const double limit = *config_.clip_qkv;
    q = q.clamp(-limit, limit), k = k.clamp(-limit, limit), v = v.clamp(-limit, limit);
  }
  q = by_head(q), k = by_head(k), v = by_head(v);
  if (config_.qk_norm && layer.pruned.queries.defined()) {  // whole until here, for their norms
    q = q.index_select(2, layer.pruned.queries), k = k.index_select(2, layer.pruned.key_values);
  }
  q = tap(taps, Site::kQuery, index, q), k = tap(taps, Site::kKey, index, k);
  v = tap(taps, Site::kValue, index, v);
  if (config_.positions == Positions::kRotary && !pass.turns_in_cache && !pass.turns_in_attention) {
    q = tap(taps, Site::kRotatedQuery, index, rotate(q, pass.rotary));
    k = tap(taps, Site::kRotatedKey, index, rotate(k, pass.rotary));
  }
  return {q, k, v};
}

Tensor Transformer::gather_values(const Heads& heads, int64_t index, const Pass& pass) const {
  const ForwardOptions& options = pass.options;
  const Layer& layer = pass.layer(index);
  AttentionCall call{heads.q.transpose(1, 2),
                     heads.k.transpose(1, 2),
                     heads.v.transpose(1, 2),
                     layer.gate_bias,
                     layer.gate_idle,
                     config_.gate,
                     config_.score_scale(index),
                     index,
                     options.draw.of_layer(index),
                     options.taps,
                     layer.pruned.key_of_query,
                     layer.pruned.kept,
                     pass.turns_in_attention ? pass.rotary : RotaryTable{},
                     !options.gate_totals && !at::GradMode::is_enabled()};
  if (pass.turns_in_cache) {
    const auto turned = options.cache->extend_turned(index, heads.q, heads.k, heads.v, pass.rotary);
    call.q = turned.q, call.k = turned.k, call.v = turned.v;
  } else if (options.cache) {
    std::tie(call.k, call.v) = options.cache->extend(index, call.k, call.v);
  }
  const AttentionResult result = attend(call);
  if (options.gate_totals && config_.gate != GateKind::kNone)
    options.gate_totals->add(call, result, layer.pruned, config_.heads);
  Tensor z = result.z.transpose(1, 2);  // [B, T, H, d]
  if (layer.pruned.kept.defined()) z = z * layer.pruned.kept.to(z.dtype()).unsqueeze(-1);
  return tap(options.taps, Site::kZ, index, z);
}

Tensor Transformer::write_heads(const Tensor& z, int64_t index, const Pass& pass) const {
  const Taps* taps = pass.options.taps;
  const Linear& output = pass.layer(index).attention_output;
  if (!wanted(taps, Site::kResult, index)) return output(z.reshape({z.size(0), z.size(1), -1}));
  const Tensor by_head = output.matrix().t().reshape({config_.heads, config_.head_size, config_.width});
  Tensor out = tap(taps, Site::kResult, index, at::einsum("bthd,hdw->bthw", {z, by_head})).sum(2);
  return output.bias.defined() ? out + output.bias : out;
}

Tensor Transformer::run_mlp(const Tensor& input, int64_t index, const Pass& pass) const {
  const Taps* taps = pass.options.taps;
  const Layer& layer = pass.layer(index);
  Tensor post;
  if (config_.gated_mlp) {
    const std::vector<Tensor> parts = apply_together(input, {&layer.gate, &layer.up});
    const Tensor pre = tap(taps, Site::kMlpPre, index, parts[0]);
    const Tensor linear = tap(taps, Site::kMlpPreLinear, index, parts[1]);
    post = config_.activation == Activation::kSilu ? silu_product(pre, linear)
                                                   : activate(config_.activation, pre) * linear;
  } else {
    post = activate(config_.activation, tap(taps, Site::kMlpPre, index, layer.up(input)));
  }
  Tensor out = layer.down(tap(taps, Site::kMlpPost, index, post));
  if (config_.norm_placement == NormPlacement::kAfter)
    out = normalise(layer.norm2, out, taps, Site::kNorm2Scale, Site::kNorm2Normalized, index);
  return tap(taps, Site::kMlpOut, index, out);
}

RowNorm Transformer::row_norm(const Norm& norm) const {
  return {norm.weight, norm.bias, config_.norm_epsilon, config_.norm != NormKind::kRmsNorm,
          norm.adds_to_grad};
}

Tensor Transformer::normalise(const Norm& norm, const Tensor& x, const Taps* taps, Site scale_site,
                              Site normal_site, int64_t layer) const {
  Tensor out;
  if (wanted(taps, scale_site, layer)) {
    // The scale is an activation of its own here, so that a tap can hold it fixed.
    const Tensor wide = x.to(at::kFloat);
    const Tensor centred = config_.norm == NormKind::kRmsNorm ? wide : wide - wide.mean(-1, true);
    const Tensor scale =
        tap(taps, scale_site, layer, (centred.square().mean(-1, true) + config_.norm_epsilon).sqrt());
    out = (centred / scale).to(x.dtype());
    if (norm.weight.defined()) out = out * norm.weight;
    if (norm.bias.defined()) out = out + norm.bias;
  } else {
    out = openwork::normalise(x, row_norm(norm));
  }
  return tap(taps, normal_site, layer, out);
}

Tensor next_token_loss(const Tensor& logits, const Tensor& ids) {
  const int64_t T = ids.size(1), V = logits.size(-1);
  const Tensor predicted = logits.narrow(1, 0, T - 1).reshape({-1, V}).to(at::kFloat);
  return at::cross_entropy_loss(predicted, ids.narrow(1, 1, T - 1).reshape({-1}));
}

}  // namespace openwork
