#include "transcode/descriptions.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "train/gather_blocks.h"
#include "transcode/measure_transcoders.h"

namespace openwork {
namespace {

constexpr int64_t kWindow = kTokensBefore + 1 + kTokensAfter;
constexpr int64_t kLogits = 5;  // tokens listed for and against

// The most active places of each feature so far: block and place in it, [contexts, F] each, 0 where none.
struct Peaks {
  Tensor values, blocks, places;
  Tensor counts;   // [F] tokens a feature was active at
  Tensor windows;  // [contexts, F, kWindow] activations around the peaks
};

using VisitFeatures = std::function<void(size_t layer, const Tensor& features, int64_t first_block)>;

// Runs the model over the blocks and hands on each layer's features [B, T, F].
void for_each_features(const Transformer& model, const Transcoders& transcoders, const TokenBlocks& blocks,
                       const VisitFeatures& visit, const std::function<void(int64_t)>& advance) {
  int64_t first = 0;
  Taps taps;
  for (size_t n = 0; n < transcoders.layers.size(); ++n) {
    taps.read(transcoder_input(model.config(), transcoders.input, static_cast<int64_t>(n)),
              [&, n](const Tensor& x) { visit(n, encode(transcoders.layers[n], x.to(at::kFloat)), first); });
  }
  ForwardOptions forward;
  forward.taps = &taps;
  const int64_t batch = choose_block_batch(model, transcoders, blocks.context);
  for (; first < blocks.count; first += batch) {
    const int64_t count = std::min(batch, blocks.count - first);
    const Tensor ids = gather_blocks(blocks, first, count, 0).to(model.device());
    model.run_layers(model.embed(ids, forward), 0, model.config().layers, forward);
    if (advance) advance(count);
  }
}

Peaks make_peaks(const LayerTranscoder& layer, int64_t contexts) {
  const auto floats = layer.encoder.options();
  const Tensor none = at::zeros({contexts, layer.features()}, floats.dtype(at::kLong));
  return {none.to(at::kFloat), none, none.clone(), at::zeros({layer.features()}, floats),
          at::zeros({contexts, layer.features(), kWindow}, floats)};
}

void add_peaks(Peaks& peaks, const Tensor& features, int64_t first_block) {
  const auto [values, places] = features.max(1);  // [B, F]
  const Tensor blocks = at::arange(first_block, first_block + features.size(0), places.options());
  const auto [best, order] = at::cat({peaks.values, values}).topk(peaks.values.size(0), 0);
  peaks.blocks = at::cat({peaks.blocks, blocks.unsqueeze(1).expand_as(places)}).gather(0, order);
  peaks.places = at::cat({peaks.places, places}).gather(0, order);
  peaks.values = best;
  peaks.counts.add_((features != 0).flatten(0, 1).sum(0));
}

// The activations around those peaks that lie in these blocks.
void add_windows(const Peaks& peaks, const Tensor& features, int64_t first_block) {
  const int64_t last = first_block + features.size(0), T = features.size(1);
  const Tensor here = (peaks.values > 0) & (peaks.blocks >= first_block) & (peaks.blocks < last);
  const std::vector<Tensor> found = here.nonzero().unbind(1);  // rank, feature
  const Tensor block = (peaks.blocks.index({found[0], found[1]}) - first_block).unsqueeze(1);
  const Tensor offsets = at::arange(-kTokensBefore, kTokensAfter + 1, block.options());
  const Tensor place = peaks.places.index({found[0], found[1]}).unsqueeze(1) + offsets;  // [found, kWindow]
  const Tensor values = features.index({block, place.clamp(0, T - 1), found[1].unsqueeze(1)});
  Tensor(peaks.windows).index_put_({found[0], found[1]}, values);
}

double round_digits(double value) {
  return std::stod(fmt::format("{:.3g}", value));
}

FeatureContext make_context(const TokenBlocks& blocks, int64_t block, int64_t place, const float* window) {
  const int64_t begin = std::max<int64_t>(0, place - kTokensBefore);
  const int64_t end = std::min(blocks.context, place + kTokensAfter + 1);
  FeatureContext context;
  context.peak = place - begin;
  for (int64_t n = begin; n < end; ++n) {
    context.tokens.push_back(blocks.tokens[static_cast<size_t>(block * blocks.context + n)]);
    context.activations.push_back(round_digits(window[n - place + kTokensBefore]));
  }
  return context;
}

// The tokens each feature's decoders, all targets summed, raise and lower most: [F, kLogits] twice, on the
// CPU.
std::pair<Tensor, Tensor> list_logits(const Transformer& model, const LayerTranscoder& layer) {
  constexpr int64_t kPiece = 512;
  const Norm& norm = model.final_norm();
  Tensor written = layer.decoder.sum(1);  // [F, D]
  if (norm.weight.defined()) written = written * norm.weight.to(at::kFloat);
  std::vector<Tensor> top, bottom;
  for (const Tensor& piece : written.split(kPiece)) {
    const Tensor logits = at::matmul(piece, model.unembedding().to(at::kFloat).t());
    top.push_back(std::get<1>(logits.topk(kLogits, -1, true, true)));
    bottom.push_back(std::get<1>(logits.topk(kLogits, -1, false, true)));
  }
  return {at::cat(top).cpu().contiguous(), at::cat(bottom).cpu().contiguous()};
}

std::vector<int32_t> row_of(const Tensor& ids, int64_t row) {
  const int64_t* const start = ids.const_data_ptr<int64_t>() + row * ids.size(1);
  return {start, start + ids.size(1)};
}

std::vector<FeatureDescription> describe_layer(const Transformer& model, const LayerTranscoder& layer,
                                               const Peaks& peaks, const TokenBlocks& blocks) {
  const auto [top, bottom] = list_logits(model, layer);
  const Tensor values = peaks.values.cpu().contiguous(), where = peaks.blocks.cpu().contiguous(),
               places = peaks.places.cpu().contiguous(), windows = peaks.windows.cpu().contiguous(),
               counts = peaks.counts.cpu().contiguous();
  const int64_t F = layer.features();
  std::vector<FeatureDescription> described(static_cast<size_t>(F));
  for (int64_t feature = 0; feature < F; ++feature) {
    FeatureDescription& one = described[static_cast<size_t>(feature)];
    one.largest = round_digits(values.const_data_ptr<float>()[feature]);
    one.density = round_digits(counts.const_data_ptr<float>()[feature] /
                               static_cast<double>(blocks.count * blocks.context));
    one.top_logits = row_of(top, feature), one.bottom_logits = row_of(bottom, feature);
    for (int64_t rank = 0; rank < values.size(0); ++rank) {
      const int64_t n = rank * F + feature;
      if (values.const_data_ptr<float>()[n] <= 0) break;
      one.contexts.push_back(make_context(blocks, where.const_data_ptr<int64_t>()[n],
                                          places.const_data_ptr<int64_t>()[n],
                                          windows.const_data_ptr<float>() + n * kWindow));
    }
  }
  return described;
}

}  // namespace

Descriptions describe_features(const Transformer& model, const Transcoders& transcoders,
                               const TokenBlocks& blocks, int64_t contexts,
                               const std::function<void(int64_t)>& advance) {
  const at::NoGradGuard no_grad;
  std::vector<Peaks> peaks;
  for (const LayerTranscoder& layer : transcoders.layers) peaks.push_back(make_peaks(layer, contexts));
  // 1. Where each feature is most active.  2. What it does around there.
  for_each_features(
      model, transcoders, blocks,
      [&](size_t n, const Tensor& f, int64_t first) { add_peaks(peaks[n], f, first); }, advance);
  for_each_features(
      model, transcoders, blocks,
      [&](size_t n, const Tensor& f, int64_t first) { add_windows(peaks[n], f, first); }, advance);
  Descriptions descriptions{transcoders.model, transcoders.model_sha256, blocks.count * blocks.context, {}};
  for (size_t n = 0; n < peaks.size(); ++n) {
    descriptions.layers.push_back(describe_layer(model, transcoders.layers[n], peaks[n], blocks));
  }
  return descriptions;
}

int64_t pair_index(int64_t layer, int64_t feature) {
  return (layer + feature) * (layer + feature + 1) / 2 + feature;
}

nlohmann::json feature_details(const FeatureDescription& description, int64_t layer, int64_t feature,
                               const Tokenizer& tokenizer) {
  const auto texts = [&](const std::vector<int32_t>& ids) {
    std::vector<std::string> list;
    for (const int32_t id : ids) list.push_back(tokenizer.decode(std::span(&id, 1)));
    return list;
  };
  nlohmann::json examples = nlohmann::json::array();
  for (const FeatureContext& context : description.contexts) {
    examples.push_back({{"tokens", texts(context.tokens)}, {"tokens_acts_list", context.activations}});
  }
  return {{"index", pair_index(layer, feature)},
          {"examples_quantiles", {{{"quantile_name", "Top activations"}, {"examples", examples}}}},
          {"top_logits", texts(description.top_logits)},
          {"bottom_logits", texts(description.bottom_logits)},
          {"activation_frequency", description.density},
          {"act_max", description.largest}};
}

}  // namespace openwork
