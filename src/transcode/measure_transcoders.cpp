#include "transcode/measure_transcoders.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>

#include "train/gather_blocks.h"
#include "transcode/mlp_activations.h"

namespace openwork {
namespace {

// Sums over tokens, [2] for the first tokens of blocks and all others.
struct LayerSums {
  Tensor tokens;    // [2]
  Tensor outputs;   // [2, D]
  Tensor squares;   // [2] of outputs
  Tensor errors;    // [2] squared
  Tensor fired;     // [F]
  Tensor replaced;  // [1] features active with all layers replaced
};

constexpr double kAlwaysOn = 0.9;  // share of tokens

class Sums {
 public:
  Sums(const Transcoders& transcoders, const Tensor& flat) : flat_(flat) {
    int64_t offset = 0;
    const auto take = [&](int64_t count) {
      return flat.narrow(0, std::exchange(offset, offset + count), count);
    };
    for (const LayerTranscoder& layer : transcoders.layers) {
      const int64_t D = layer.encoder.size(1);
      layers_.push_back(
          {take(2), take(2 * D).view({2, D}), take(2), take(2), take(layer.features()), take(1)});
    }
  }
  static int64_t count(const Transcoders& transcoders) {
    int64_t numbers = 0;
    for (const LayerTranscoder& layer : transcoders.layers)
      numbers += 7 + 2 * layer.encoder.size(1) + layer.features();
    return numbers;
  }

  const std::vector<LayerSums>& layers() const { return layers_; }

  // outputs and written [B, T, D], features [B, T, F].
  void add(size_t layer, const Tensor& outputs, const Tensor& written, const Tensor& features) const {
    const LayerSums& sums = layers_[layer];
    const auto split = [](const Tensor& per_token) {  // [B, T] -> [2]
      return at::stack(
          {per_token.narrow(1, 0, 1).sum(), per_token.narrow(1, 1, per_token.size(1) - 1).sum()});
    };
    const Tensor wide = outputs.to(at::kDouble);
    sums.tokens.add_(split(at::ones({outputs.size(0), outputs.size(1)}, wide.options())));
    const Tensor per_place = wide.sum(0);  // [T, D]
    sums.outputs.add_(at::stack({per_place[0], per_place.narrow(0, 1, per_place.size(0) - 1).sum(0)}));
    sums.squares.add_(split(wide.square().sum(-1)));
    sums.errors.add_(split((wide - written).square().sum(-1)));
    sums.fired.add_((features != 0).flatten(0, 1).sum(0));
  }

 private:
  Tensor flat_;
  std::vector<LayerSums> layers_;
};

double explained(const LayerSums& sums, int64_t from) {
  const auto total = [&](const Tensor& by_group) { return by_group.narrow(0, from, 2 - from).sum(0); };
  const Tensor variance = total(sums.squares) - total(sums.outputs).square().sum() / total(sums.tokens);
  return 1 - (total(sums.errors) / variance).item<double>();
}

LayerQuality summarise(const LayerSums& sums) {
  const double tokens = sums.tokens.sum().item<double>();
  const auto share = [](const Tensor& of) { return of.to(at::kDouble).mean().item<double>(); };
  return {explained(sums, 0),
          explained(sums, 1),
          sums.fired.sum().item<double>() / tokens,
          share(sums.fired == 0),
          share(sums.fired >= kAlwaysOn * tokens),
          (sums.errors[0] / sums.errors.sum().clamp_min(1e-300)).item<double>(),
          sums.replaced.item<double>() / tokens};
}

Tensor block_losses(const Transformer& model, const Tensor& ids, const Tensor& targets, const Taps* taps) {
  ForwardOptions options;
  options.taps = taps;
  const Tensor logits = model.forward(ids, options).flatten(0, 1).to(at::kFloat);
  return at::cross_entropy_loss(logits, targets.flatten(), {}, at::Reduction::None);
}

// Calls visit(ids, targets, first block, count of them) for this rank's batches of the first `blocks_wanted`.
template <typename Visit>
void visit_blocks(const Transformer& model, const Transcoders& transcoders, const TokenBlocks& blocks,
                  int64_t blocks_wanted, const Ranks& ranks, Visit visit) {
  const int64_t batch = choose_block_batch(model, transcoders, blocks.context);
  for (int64_t first = ranks.rank() * batch; first < blocks_wanted; first += ranks.count() * batch) {
    const int64_t count = std::min(batch, blocks_wanted - first);
    visit(gather_blocks(blocks, first, count, 0).to(model.device()),
          gather_blocks(blocks, first, count, 1).to(model.device()), first, count);
  }
}

struct TokenLosses {
  Tensor model, replaced, mean, zero;  // [blocks * context] float32 on the CPU, 0 where another rank measures
};

// How much more each token costs with the MLPs replaced, documents resampled. Prediction n is of token n + 1.
Interval find_interval(const TokenLosses& losses, const TokenBlocks& blocks, uint64_t seed) {
  std::map<int32_t, std::pair<double, double>> documents;  // nats, tokens
  const float *before = losses.model.const_data_ptr<float>(),
              *after = losses.replaced.const_data_ptr<float>();
  for (int64_t n = 0; n < losses.model.numel(); ++n) {
    auto& [nats, tokens] = documents[blocks.document[static_cast<size_t>(n + 1)]];
    nats += after[n] - before[n];
    tokens += 1;
  }
  std::vector<double> nats, tokens;
  for (const auto& [document, sums] : documents) nats.push_back(sums.first), tokens.push_back(sums.second);
  return bootstrap_ratio(nats, tokens, seed);
}

class Measurement {
 public:
  Measurement(const Transformer& model, const Transcoders& transcoders, const TokenBlocks& blocks,
              Ranks& ranks)
      : model_(model),
        transcoders_(transcoders),
        blocks_(blocks),
        ranks_(ranks),
        flat_(at::zeros({Sums::count(transcoders)},
                        at::TensorOptions().dtype(at::kDouble).device(model.device()))),
        sums_(transcoders, flat_) {
    for (Tensor* losses : {&losses_.model, &losses_.replaced, &losses_.mean, &losses_.zero}) {
      *losses = at::zeros({blocks.count * blocks.context}, at::kFloat);
    }
  }

  TranscoderQuality run(uint64_t seed, const std::function<void(int64_t)>& advance) {
    Taps zero, replaced;
    replace_mlps(zero, at::zeros({model_.config().layers, model_.config().width}, flat_.options()));
    replace_mlps(replaced, transcoders_, model_.config(),
                 {.look = [this](size_t layer, const Tensor& features) {
                   sums_.layers()[layer].replaced.add_((features != 0).sum());
                 }});
    for_each_batch([&](const Tensor& ids, const Tensor& targets, int64_t first, int64_t count) {
      measure_layers(ids, targets, first);
      keep(losses_.replaced, first, block_losses(model_, ids, targets, &replaced));
      keep(losses_.zero, first, block_losses(model_, ids, targets, &zero));
      if (advance) advance(count);
    });
    ranks_.sum(flat_);
    Taps mean;
    std::vector<Tensor> means;
    for (const LayerSums& sums : sums_.layers()) means.push_back(sums.outputs.sum(0) / sums.tokens.sum());
    replace_mlps(mean, at::stack(means));
    for_each_batch([&](const Tensor& ids, const Tensor& targets, int64_t first, int64_t) {
      keep(losses_.mean, first, block_losses(model_, ids, targets, &mean));
    });
    for (const Tensor& losses : {losses_.model, losses_.replaced, losses_.mean, losses_.zero})
      ranks_.sum(losses);
    return summarise_all(seed);
  }

 private:
  template <typename Visit>
  void for_each_batch(Visit visit) {
    visit_blocks(model_, transcoders_, blocks_, blocks_.count, ranks_, visit);
  }

  void keep(const Tensor& into, int64_t first_block, const Tensor& losses) const {
    into.narrow(0, first_block * blocks_.context, losses.numel()).copy_(losses);
  }

  // The model as it is, its loss, and what each transcoder makes of the inputs it has.
  void measure_layers(const Tensor& ids, const Tensor& targets, int64_t first) {
    std::vector<Tensor> inputs(transcoders_.layers.size()), features = inputs, outputs = inputs;
    Taps taps;
    for (size_t n = 0; n < inputs.size(); ++n) {
      const auto layer = static_cast<int64_t>(n);
      taps.read(transcoder_input(model_.config(), transcoders_.input, layer),
                [&inputs, &features, n, this](const Tensor& x) {
                  inputs[n] = x.to(at::kFloat);
                  features[n] = encode(transcoders_.layers[n], inputs[n]);
                });
      taps.read({Site::kMlpOut, layer}, [&outputs, n](const Tensor& x) { outputs[n] = x; });
    }
    keep(losses_.model, first, block_losses(model_, ids, targets, &taps));
    for (size_t n = 0; n < inputs.size(); ++n) {
      sums_.add(n, outputs[n], decode_layer(transcoders_, n, features, inputs), features[n]);
    }
  }

  TranscoderQuality summarise_all(uint64_t seed) const {
    TranscoderQuality quality;
    const auto count = static_cast<double>(sums_.layers().size());
    for (const LayerSums& sums : sums_.layers()) {
      const LayerQuality layer = summarise(sums);
      quality.layers.push_back(layer);
      quality.mean.explained_variance += layer.explained_variance / count;
      quality.mean.explained_variance_after_first += layer.explained_variance_after_first / count;
      quality.mean.active_features += layer.active_features / count;
      quality.mean.dead_share += layer.dead_share / count;
      quality.mean.always_on_share += layer.always_on_share / count;
      quality.mean.first_token_share += layer.first_token_share / count;
      quality.mean.active_replaced += layer.active_replaced / count;
    }
    const auto mean = [](const Tensor& losses) { return losses.mean(at::kDouble).item<double>(); };
    quality.losses = {mean(losses_.model), mean(losses_.replaced), mean(losses_.mean), mean(losses_.zero)};
    quality.tokens = losses_.model.numel(), quality.blocks = blocks_.count, quality.context = blocks_.context;
    quality.interval = find_interval(losses_, blocks_, seed);
    return quality;
  }

  const Transformer& model_;
  const Transcoders& transcoders_;
  const TokenBlocks& blocks_;
  Ranks& ranks_;
  Tensor flat_;
  Sums sums_;
  TokenLosses losses_;
};

}  // namespace

int64_t choose_block_batch(const Transformer& model, const Transcoders& transcoders, int64_t context) {
  int64_t numbers = model.config().vocabulary;
  for (const LayerTranscoder& layer : transcoders.layers) numbers += layer.features();
  const double budget = model.device().is_cpu() ? 1e8 : 1e9;
  return std::clamp<int64_t>(static_cast<int64_t>(budget / static_cast<double>(context * numbers)), 1, 64);
}

TranscoderQuality measure_transcoders(const Transformer& model, const Transcoders& transcoders,
                                      const TokenBlocks& blocks, Ranks& ranks, uint64_t seed,
                                      const std::function<void(int64_t)>& advance) {
  const at::NoGradGuard no_grad;
  return Measurement(model, transcoders, blocks, ranks).run(seed, advance);
}

ReplacementCurves measure_curves(const Transformer& model, const Transcoders& transcoders,
                                 const TokenBlocks& blocks, int64_t count, Ranks& ranks,
                                 const std::function<void(int64_t)>& advance) {
  const at::NoGradGuard no_grad;
  ReplacementCurves curves;
  curves.blocks = std::min(count, blocks.count);
  const int64_t layers = model.config().layers;
  Tensor sums = at::zeros({2 * layers + 1}, at::kDouble);  // up to each layer, each alone, none
  visit_blocks(model, transcoders, blocks, curves.blocks, ranks,
               [&](const Tensor& ids, const Tensor& targets, int64_t, int64_t visited) {
                 const auto add = [&](int64_t place, const Taps* taps) {
                   sums[place].add_(block_losses(model, ids, targets, taps).sum(at::kDouble).cpu());
                 };
                 for (int64_t n = 0; n < 2 * layers; ++n) {
                   Taps taps;
                   const int64_t layer = n % layers;
                   replace_mlps(taps, transcoders, model.config(),
                                {.first = n < layers ? 0 : layer, .end = layer + 1});
                   add(n, &taps);
                 }
                 add(2 * layers, nullptr);
                 if (advance) advance(visited);
               });
  ranks.sum(sums);
  sums /= static_cast<double>(curves.blocks * blocks.context);
  for (int64_t n = 0; n < 2 * layers; ++n) {
    (n < layers ? curves.up_to : curves.alone).push_back((sums[n] - sums[2 * layers]).item<double>());
  }
  return curves;
}

}  // namespace openwork
