#include "analyze/trace/trace_sources.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace openwork {

Tensor SourcePiece::first_rows(int64_t most) const {
  const Tensor rows =
      pick.defined() ? table.index_select(0, pick.narrow(0, 0, most)) : table.narrow(0, 0, most);
  return factor.defined() ? rows * factor.narrow(0, 0, most) : rows;
}

Tensor SourcePiece::rows_of(const Tensor& sources) const {
  const Tensor rows = table.index_select(0, pick.defined() ? pick.index_select(0, sources) : sources);
  return factor.defined() ? rows * factor.index_select(0, sources) : rows;
}

TraceSources::TraceSources(const FrozenRun& run, const Transcoders* transcoders)
    : run_(run), transcoders_(transcoders) {
  const int64_t layers = run.config().layers;
  tokens_ = at::arange(run.tokens, run.ids.options());
  for (int64_t s = 0; s <= run.tokens; ++s) by_token_.push_back(s);
  if (transcoders != nullptr) {
    find_features();
  } else {
    add_by_token(TraceNodeKind::kMlp, 0, layers);
  }
  first_source_only_ = first_error_ = columns();
  if (transcoders != nullptr) add_by_token(TraceNodeKind::kError, 0, layers);
  first_embedding_ = columns();
  add_by_token(TraceNodeKind::kEmbedding, -1, 1);
  const Tensor ids = run.ids[0].to(at::kCPU);
  for (int64_t s = 0; s < run.tokens; ++s) {
    nodes_[static_cast<size_t>(first_embedding_ + s)].feature = ids[s].item<int64_t>();
  }
  first_bias_ = columns();
  add_by_token(TraceNodeKind::kBias, 0, layers + 1);
}

// Which features the prompt has in every layer, what they are worth, and what they leave of MLP outputs.
void TraceSources::find_features() {
  const ModelConfig& config = run_.config();
  const bool normed =
      transcoders_->input == TranscoderInput::kNormed && config.norm_placement == NormPlacement::kBefore;
  std::vector<Tensor> features, inputs;
  for (int64_t l = 0; l < config.layers; ++l) {
    const LayerTranscoder& transcoder = transcoders_->layers[static_cast<size_t>(l)];
    inputs.push_back(run_.layer(l).mlp_in);
    features.push_back(encode(transcoder, inputs.back()));  // [T, F]
    const Tensor places = features.back().nonzero();        // [m, 2], by token, then feature
    Active active{columns(), places.select(1, 1).contiguous(), places.select(1, 0).contiguous(), {}, {}};
    active.values = features.back().index({active.positions, active.features}).unsqueeze(1);
    const Tensor features_here = active.features.to(at::kCPU), positions = active.positions.to(at::kCPU),
                 values = active.values.to(at::kCPU, at::kDouble);
    active.offsets.assign(static_cast<size_t>(run_.tokens) + 1, 0);
    for (int64_t n = 0; n < features_here.size(0); ++n) {
      const int64_t position = positions.const_data_ptr<int64_t>()[n];
      nodes_.push_back({.kind = TraceNodeKind::kFeature,
                        .layer = l,
                        .position = position,
                        .feature = features_here.const_data_ptr<int64_t>()[n],
                        .value = values.const_data_ptr<double>()[n]});
      ++active.offsets[static_cast<size_t>(position) + 1];
    }
    for (size_t s = 1; s < active.offsets.size(); ++s) active.offsets[s] += active.offsets[s - 1];
    active_.push_back(active);
    // A skip reads the norm's bias as well, which no source writes.
    const Tensor& norm_bias = run_.model.layer(l).norm2.bias;
    Tensor constant = transcoder.decoder_bias;
    if (transcoder.skip.defined() && normed && norm_bias.defined())
      constant = constant + at::mv(transcoder.skip, norm_bias);
    output_constants_.push_back(constant);
  }
  const std::vector<Tensor> outputs = decode(*transcoders_, features, inputs);
  for (int64_t l = 0; l < config.layers; ++l)
    errors_.push_back(run_.layer(l).mlp_out - outputs[static_cast<size_t>(l)]);
}

void TraceSources::add_by_token(TraceNodeKind kind, int64_t first_layer, int64_t layers) {
  for (int64_t l = first_layer; l < first_layer + layers; ++l) {
    for (int64_t s = 0; s < run_.tokens; ++s) nodes_.push_back({.kind = kind, .layer = l, .position = s});
  }
}

int64_t TraceSources::bias_column(int64_t layer, int64_t position) const {
  return first_bias_ + layer * run_.tokens + position;
}

SourcePiece TraceSources::piece_by_token(int64_t first, Tensor table) const {
  return {.first = first,
          .table = std::move(table),
          .pick = {},
          .factor = {},
          .positions = tokens_,
          .offsets = by_token_};
}

std::vector<SourcePiece> TraceSources::pieces_at(StreamPoint point, int64_t layer) const {
  if (point == StreamPoint::kStart) return {piece_by_token(first_embedding_, run_.embedding)};
  const int64_t bias = bias_column(layer, 0);
  if (point == StreamPoint::kMiddle) return {piece_by_token(bias, run_.layer(layer).constant)};
  if (transcoders_ == nullptr) return {piece_by_token(layer * run_.tokens, run_.layer(layer).mlp_out)};
  std::vector<SourcePiece> pieces;
  for (int64_t k = transcoders_->kind == TranscoderKind::kCrossLayer ? 0 : layer; k <= layer; ++k) {
    const Active& active = active_[static_cast<size_t>(k)];
    if (active.offsets.back() == 0) continue;
    const Tensor decoder =
        transcoders_->layers[static_cast<size_t>(k)].decoder.select(1, layer - k);  // [F, D]
    pieces.push_back(
        {active.first, decoder, active.features, active.values, active.positions, active.offsets});
  }
  pieces.push_back(piece_by_token(first_error_ + layer * run_.tokens, errors_[static_cast<size_t>(layer)]));
  const Tensor& constant = output_constants_[static_cast<size_t>(layer)];
  pieces.push_back(piece_by_token(bias, constant.unsqueeze(0).expand({run_.tokens, -1})));
  return pieces;
}

int64_t TraceSources::find(const std::string& name) const {
  const auto it =
      std::find_if(nodes_.begin(), nodes_.end(), [&](const TraceNode& node) { return node.name() == name; });
  if (it != nodes_.end()) return it - nodes_.begin();
  fail_input(fmt::format("no node {} in this prompt", printable(name, 80)), "trace",
             transcoders_ != nullptr ? "name a feature that is active there (L3F512@7), an error (E3@7), an "
                                       "embedding (T@7) or a head (L5H1)"
                                     : "name an MLP (M3@7), an embedding (T@7) or a head (L5H1)");
}

}  // namespace openwork
