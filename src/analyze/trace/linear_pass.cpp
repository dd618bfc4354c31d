#include "analyze/trace/linear_pass.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"

namespace openwork {
namespace {

Tensor index_of(const std::vector<int64_t>& numbers, const Tensor& like) {
  return at::tensor(numbers, at::kLong).to(like.device());
}

// One head's block of `value` or of `output`: rows, or columns, [at * d, at * d + d).
Tensor block_of(const Tensor& matrix, int64_t dimension, int64_t at, int64_t d) {
  return matrix.narrow(dimension, at * d, d);
}

// Adds the directions of targets that read in `layer`, the next of those in g [P, n, D].
void add_readings(const Targets& targets, int64_t layer, Tensor& g) {
  const int64_t met = g.size(1);
  int64_t end = met;
  while (end < targets.count() && targets.layers[static_cast<size_t>(end)] == layer) ++end;
  if (end == met) return;
  const std::vector<int64_t> positions(targets.positions.begin() + met, targets.positions.begin() + end);
  const Tensor more = at::zeros({g.size(0), end - met, g.size(2)}, g.options());
  const Tensor each = at::arange(end - met, at::kLong).to(g.device());
  more.index_put_({index_of(positions, g), each}, targets.directions.narrow(0, met, end - met));
  g = met == 0 ? more : at::cat({g, more}, 1);
}

}  // namespace

int64_t Targets::first_position() const {
  return *std::min_element(positions.begin(), positions.end());
}
int64_t Targets::last_position() const {
  return *std::max_element(positions.begin(), positions.end());
}
int64_t Targets::last_layer() const {
  return *std::max_element(layers.begin(), layers.end());
}

Targets pick_targets(const Targets& targets, const std::vector<int64_t>& rows) {
  Targets picked;
  for (const int64_t row : rows) {
    const auto n = static_cast<size_t>(row);
    picked.layers.push_back(targets.layers[n]);
    picked.positions.push_back(targets.positions[n]);
    picked.values.push_back(targets.values[n]);
  }
  const Tensor index = index_of(rows, targets.directions);
  picked.directions = targets.directions.index_select(0, index);
  picked.constants = targets.constants.index_select(0, index);
  return picked;
}

LinearPass::LinearPass(const FrozenRun& run, const Transcoders* transcoders) : run_(run) {
  if (transcoders == nullptr) return;
  normed_ =
      transcoders->input == TranscoderInput::kNormed && run.config().norm_placement == NormPlacement::kBefore;
  for (int64_t l = 0; l < run.config().layers; ++l) {
    Tensor skip = transcoders->layers[static_cast<size_t>(l)].skip;
    if (skip.defined() && normed_) skip = fold_reading(run.config(), run.model.layer(l).norm2, skip);
    skips_.push_back(skip);
  }
}

// g [P, n, D] at the place behind attention -> what of it reads the stream before, [P, n, D].
Tensor LinearPass::pull_attention(int64_t layer, const Tensor& g) const {
  const FrozenLayer& frozen = run_.layer(layer);
  const int64_t P = g.size(0), n = g.size(1), D = g.size(2), d = run_.config().head_size,
                group = run_.config().group_size();
  const Tensor directions = g.view({P * n, D});
  Tensor pulled = at::zeros_like(directions);
  for (int64_t kv = 0; kv < run_.config().kv_heads; ++kv) {
    Tensor into_values;  // [P, n d]
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      if (!frozen.open[static_cast<size_t>(h)]) continue;
      const Tensor u = at::mm(directions, block_of(frozen.output, 1, h, d)).view({P, n * d});
      const Tensor back = frozen.mix[h].narrow(0, 0, P).narrow(1, 0, P).t();  // [keys, queries]
      into_values = into_values.defined() ? into_values.addmm_(back, u) : at::mm(back, u);
    }
    if (!into_values.defined()) continue;
    into_values = into_values.view({P, n, d});
    if (frozen.kept.defined()) into_values.mul_(block_of(frozen.kept, 1, kv, d).narrow(0, 0, P).unsqueeze(1));
    pulled.addmm_(into_values.view({P * n, d}), block_of(frozen.value, 0, kv, d));
  }
  return pulled.view({P, n, D});
}

// g [..., D] into a layer's output -> what the skip reads, at `positions` [...].
Tensor LinearPass::pull_skip(int64_t layer, const Tensor& g, const Tensor& positions) const {
  const Tensor pulled = at::matmul(g, skips_[static_cast<size_t>(layer)]);
  if (!normed_) return pulled;
  return pulled / run_.layer(layer).mlp_scale.index_select(0, positions);
}

void LinearPass::carry_back(const Targets& targets, const Visitor& visit, const Pull& through) const {
  const ModelConfig& config = run_.config();
  const int64_t P = targets.last_position() + 1, top = targets.last_layer();
  if (!std::is_sorted(targets.layers.rbegin(), targets.layers.rend())) {
    fail("targets that are not in order of layers", "trace", "this is a defect: please report it");
  }
  Tensor g = at::zeros({P, 0, config.width}, run_.embedding.options());
  add_readings(targets, config.layers, g);
  for (int64_t l = std::min(top, config.layers - 1); l >= 0; --l) {
    const bool reached = l < top;  // something already reads what this layer writes
    Tensor more;                   // what the MLP's input is read for
    if (reached) {
      visit(StreamPoint::kOutput, l, g);
      if (through) more = through(l, g);
      if (has_skip(l)) {
        const Tensor every = at::arange(P, run_.ids.options());
        const Tensor skip = pull_skip(l, g.transpose(0, 1), every).transpose(0, 1);
        more = more.defined() ? more + skip : skip;
      }
    }
    if (!config.parallel_residual) {
      if (more.defined()) g.add_(more);
      add_readings(targets, l, g);
    }
    if (reached || !config.parallel_residual) {
      visit(StreamPoint::kMiddle, l, g);
      g.add_(pull_attention(l, g));
    }
    if (config.parallel_residual) {
      if (more.defined()) g.add_(more);
      add_readings(targets, l, g);
    }
  }
  visit(StreamPoint::kStart, -1, g);
}

void LinearPass::carry_back_staying(const Targets& targets,
                                    const std::function<void(int64_t, const Tensor&)>& visit) const {
  const ModelConfig& config = run_.config();
  const int64_t d = config.head_size, group = config.group_size();
  const Tensor positions = index_of(targets.positions, targets.directions),
               layers = index_of(targets.layers, targets.directions);
  const auto readings_of = [&](int64_t layer) {
    return targets.directions * (layers == layer).to(targets.directions.dtype()).unsqueeze(1);
  };
  Tensor g = readings_of(config.layers);  // [n, D]
  for (int64_t l = std::min(targets.last_layer(), config.layers - 1); l >= 0; --l) {
    const FrozenLayer& frozen = run_.layer(l);
    Tensor more = readings_of(l);
    if (has_skip(l)) more = more + pull_skip(l, g, positions);
    if (!config.parallel_residual) g = g + more;
    visit(l, g);
    const Tensor stays = frozen.mix.diagonal(0, 1, 2).index_select(1, positions);  // [H, n]
    Tensor pulled = g.clone();
    for (int64_t h = 0; h < config.heads; ++h) {
      if (!frozen.open[static_cast<size_t>(h)]) continue;
      Tensor u = at::mm(g, block_of(frozen.output, 1, h, d)) * stays[h].unsqueeze(1);  // [n, d]
      if (frozen.kept.defined()) u = u * block_of(frozen.kept, 1, h / group, d).index_select(0, positions);
      pulled.addmm_(u, block_of(frozen.value, 0, h / group, d));
    }
    g = config.parallel_residual ? pulled + more : pulled;
  }
}

Tensor LinearPass::push_attention(int64_t layer, const Tensor& x, const Forward& forward) const {
  const FrozenLayer& frozen = run_.layer(layer);
  const int64_t P = x.size(0), n = x.size(1), D = x.size(2), d = run_.config().head_size,
                group = run_.config().group_size();
  const Tensor writings = x.view({P * n, D});
  Tensor after = writings.clone();
  for (int64_t kv = 0; kv < run_.config().kv_heads; ++kv) {
    Tensor values = at::mm(writings, block_of(frozen.value, 0, kv, d).t()).view({P, n, d});
    if (frozen.kept.defined())
      values.mul_(block_of(frozen.kept, 1, kv, d).narrow(0, forward.first, P).unsqueeze(1));
    values = values.view({P, n * d});
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      if (!frozen.open[static_cast<size_t>(h)]) continue;
      const Tensor z = at::mm(frozen.mix[h].narrow(0, forward.first, P).narrow(1, forward.first, P), values);
      if (forward.head) forward.head(layer, h, values, z);
      after.addmm_(z.view({P * n, d}), block_of(frozen.output, 1, h, d).t());
    }
  }
  return after.view({P, n, D});
}

void LinearPass::carry_forward(const Forward& forward) const {
  const int64_t P = forward.last - forward.first + 1;
  Tensor x = at::zeros({P, static_cast<int64_t>(forward.columns.size()), run_.config().width},
                       run_.embedding.options());
  bool begun = false;
  // Puts in what the sources of this pass write here.
  const auto write = [&](StreamPoint point, int64_t layer) {
    for (const SourcePiece& piece : forward.sources.pieces_at(point, layer)) {
      std::vector<int64_t> slots, local;
      for (size_t n = 0; n < forward.columns.size(); ++n) {
        const int64_t at = forward.columns[n] - piece.first;
        if (at >= 0 && at < piece.count()) slots.push_back(static_cast<int64_t>(n)), local.push_back(at);
      }
      if (slots.empty()) continue;
      const Tensor sources = index_of(local, x);
      x.index_put_({piece.positions.index_select(0, sources) - forward.first, index_of(slots, x)},
                   piece.rows_of(sources), true);
      begun = true;
    }
  };
  write(StreamPoint::kStart, -1);
  for (int64_t l = 0; l < forward.end; ++l) {
    if (begun && forward.visit) forward.visit(l, x);
    const Tensor before = begun ? x : at::zeros_like(x);
    if (begun) x = push_attention(l, x, forward);
    write(StreamPoint::kMiddle, l);
    if (begun && has_skip(l)) {
      Tensor read = run_.config().parallel_residual ? before : x;
      if (normed_) read = read / run_.layer(l).mlp_scale.narrow(0, forward.first, P).unsqueeze(1);
      x = x + at::matmul(read, skips_[static_cast<size_t>(l)].t());
    }
    write(StreamPoint::kOutput, l);
  }
  if (begun && forward.visit) forward.visit(forward.end, x);
}

Tensor find_effects(const LinearPass& pass, const TraceSources& sources, const Targets& targets,
                    const LinearPass::Pull& through) {
  Tensor effects = at::zeros({sources.columns(), targets.count()}, targets.directions.options());
  const auto meet_sources = [&](StreamPoint point, int64_t layer, const Tensor& g) {
    const int64_t P = g.size(0);
    for (const SourcePiece& piece : sources.pieces_at(point, layer)) {
      const Tensor rows = piece.first_rows(piece.offsets[static_cast<size_t>(P)]);
      for (int64_t s = 0; s < P; ++s) {
        const int64_t from = piece.offsets[static_cast<size_t>(s)],
                      count = piece.offsets[static_cast<size_t>(s) + 1] - from;
        if (count == 0) continue;
        effects.narrow(0, piece.first + from, count)
            .narrow(1, 0, g.size(1))
            .addmm_(rows.narrow(0, from, count), g[s].t());
      }
    }
  };
  pass.carry_back(targets, meet_sources, through);
  std::vector<int64_t> own;  // where a target's own constants are counted
  for (size_t n = 0; n < targets.layers.size(); ++n)
    own.push_back(sources.bias_column(targets.layers[n], targets.positions[n]));
  const Tensor every = at::arange(targets.count(), at::kLong).to(effects.device());
  effects.index_put_({index_of(own, effects), every}, targets.constants, /*accumulate=*/true);
  return effects.t();
}

}  // namespace openwork
