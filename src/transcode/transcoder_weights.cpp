#include "transcode/transcoder_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace openwork {
namespace {

int64_t first_decoder(int64_t target) {
  return target * (target + 1) / 2;
}

// The decoders that write to a layer, [target + 1, F, D].
Tensor decoders_to(const Tensor& decoder, int64_t target) {
  return decoder.narrow(0, first_decoder(target), target + 1);
}

// Calls visit(target, decoders of target, layers 0 to target of `features`) for every layer.
template <typename Visit>
void for_each_target(const TranscoderShape& shape, const Tensor& decoder, const Tensor& features,
                     Visit visit) {
  for (int64_t target = 0; target < shape.layers; ++target) {
    visit(target, decoders_to(decoder, target), features.narrow(0, 0, target + 1));
  }
}

}  // namespace

TranscoderParts split_parts(const TranscoderShape& shape, const Tensor& flat) {
  const int64_t L = shape.layers, P = shape.decoders(), F = shape.features, D = shape.width;
  int64_t offset = 0;
  const auto take = [&](const std::vector<int64_t>& sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    offset += count;
    return flat.narrow(0, offset - count, count).view(sizes);
  };
  TranscoderParts parts;
  parts.encoder = take({L, F, D});
  parts.decoder = take({P, F, D});
  parts.encoder_bias = take({L, F});
  parts.decoder_bias = take({L, D});
  if (shape.skip) parts.skip = take({L, D, D});
  return parts;
}

Tensor decode_all(const TranscoderShape& shape, const Tensor& decoder, const Tensor& features) {
  if (shape.kind == TranscoderKind::kPerLayer) return at::bmm(features, decoder);
  std::vector<Tensor> outputs;
  for_each_target(shape, decoder, features, [&](int64_t, const Tensor& decoders, const Tensor& sources) {
    outputs.push_back(at::bmm(sources, decoders).sum(0));
  });
  return at::stack(outputs);
}

Tensor carry_back(const TranscoderShape& shape, const Tensor& decoder, const Tensor& gradient) {
  if (shape.kind == TranscoderKind::kPerLayer) return at::bmm(gradient, decoder.transpose(1, 2));
  Tensor result = at::zeros({shape.layers, gradient.size(1), shape.features}, gradient.options());
  for_each_target(shape, decoder, result, [&](int64_t target, const Tensor& decoders, const Tensor& sources) {
    const Tensor own = gradient.narrow(0, target, 1).expand({target + 1, -1, -1});
    Tensor into = sources;
    into.baddbmm_(own, decoders.transpose(1, 2));
  });
  return result;
}

void add_decoder_gradient(const TranscoderShape& shape, const Tensor& features, const Tensor& gradient,
                          const Tensor& into) {
  if (shape.kind == TranscoderKind::kPerLayer) {
    into.add_(at::bmm(features.transpose(1, 2), gradient));
    return;
  }
  for_each_target(shape, into, features, [&](int64_t target, const Tensor& decoders, const Tensor& sources) {
    const Tensor own = gradient.narrow(0, target, 1).expand({target + 1, -1, -1});
    decoders.add_(at::bmm(sources.transpose(1, 2), own));
  });
}

void normalise_decoders(const TranscoderShape& shape, const Tensor& decoder) {
  const at::NoGradGuard no_grad;
  if (shape.kind == TranscoderKind::kPerLayer) {
    decoder.div_(at::linalg_vector_norm(decoder, 2, {-1}, true).clamp_min(1e-12));
    return;
  }
  const Tensor squares = decoder.square().sum(-1);  // [P, F]
  Tensor lengths = at::zeros({shape.layers, shape.features}, decoder.options());
  for_each_target(shape, squares, lengths,
                  [](int64_t, const Tensor& own, const Tensor& sources) { Tensor(sources).add_(own); });
  lengths.sqrt_().clamp_min_(1e-12);
  for_each_target(shape, decoder, lengths, [](int64_t, const Tensor& own, const Tensor& sources) {
    Tensor(own).div_(sources.unsqueeze(-1));
  });
}

std::vector<LayerTranscoder> fold_scales(const TranscoderShape& shape, const TranscoderParts& parts,
                                         const Tensor& threshold, const ActivationScales& scales) {
  const at::NoGradGuard no_grad;
  const bool cross = shape.kind == TranscoderKind::kCrossLayer;
  std::vector<LayerTranscoder> layers;
  for (int64_t n = 0; n < shape.layers; ++n) {
    const Tensor out = scales.output[n];
    LayerTranscoder layer;
    layer.encoder = (parts.encoder[n] * (out / scales.input[n])).cpu();
    layer.encoder_bias = (parts.encoder_bias[n] * out).cpu();
    layer.threshold = (threshold[n] * out).expand({shape.features}).contiguous().cpu();
    layer.decoder_bias = (parts.decoder_bias[n] * out).cpu();
    std::vector<Tensor> decoders;  // [F, D] to each target
    for (int64_t target = n; target < (cross ? shape.layers : n + 1); ++target) {
      const Tensor decoder = cross ? decoders_to(parts.decoder, target)[n] : parts.decoder[n];
      decoders.push_back(decoder * (scales.output[target] / out));
    }
    layer.decoder = at::stack(decoders, 1).cpu();  // [F, N, D]
    if (shape.skip) layer.skip = (parts.skip[n] * (out / scales.input[n])).cpu();
    layers.push_back(std::move(layer));
  }
  return layers;
}

Tensor unfold_scales(const TranscoderShape& shape, const std::vector<LayerTranscoder>& layers,
                     const ActivationScales& scales, const TranscoderParts& parts) {
  const at::NoGradGuard no_grad;
  const bool cross = shape.kind == TranscoderKind::kCrossLayer;
  Tensor threshold = at::zeros_like(scales.output);
  for (int64_t n = 0; n < shape.layers; ++n) {
    const LayerTranscoder& layer = layers[static_cast<size_t>(n)];
    const Tensor out = scales.output[n];
    const auto put = [&](const Tensor& place, const Tensor& value, const Tensor& factor) {
      Tensor(place).copy_(value.to(place.device()) * factor);
    };
    put(parts.encoder[n], layer.encoder, scales.input[n] / out);
    put(parts.encoder_bias[n], layer.encoder_bias, out.reciprocal());
    put(parts.decoder_bias[n], layer.decoder_bias, out.reciprocal());
    put(threshold[n], layer.threshold.mean(), out.reciprocal());
    for (int64_t target = n; target < (cross ? shape.layers : n + 1); ++target) {
      const Tensor place = cross ? decoders_to(parts.decoder, target)[n] : parts.decoder[n];
      put(place, layer.decoder.select(1, target - n), out / scales.output[target]);
    }
    if (shape.skip && layer.skip.defined()) put(parts.skip[n], layer.skip, scales.input[n] / out);
  }
  return threshold;
}

}  // namespace openwork
