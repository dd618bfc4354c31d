#include "transcode/joint_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/fused.h"

namespace openwork {
namespace {

// The parts as leaves, one for each layer's matrix: a gradient of a view would be as large as the whole.
struct Leaves {
  std::vector<Tensor> encoder, encoder_bias, decoder, decoder_bias, skip;

  explicit Leaves(const TranscoderParts& parts) {
    const auto cut = [](const Tensor& stacked, std::vector<Tensor>& into) {
      if (!stacked.defined()) return;
      for (const Tensor& part : stacked.unbind(0)) into.push_back(part.detach().set_requires_grad(true));
    };
    cut(parts.encoder, encoder), cut(parts.encoder_bias, encoder_bias);
    cut(parts.decoder, decoder), cut(parts.decoder_bias, decoder_bias);
    cut(parts.skip, skip);
  }

  void add_gradients(const TranscoderParts& into, double factor) const {
    const auto add = [&](const std::vector<Tensor>& leaves, const Tensor& stacked) {
      for (size_t n = 0; n < leaves.size(); ++n) {
        const Tensor gradient = leaves[n].grad();
        if (gradient.defined()) stacked.select(0, static_cast<int64_t>(n)).add_(gradient, factor);
      }
    };
    add(encoder, into.encoder), add(encoder_bias, into.encoder_bias);
    add(decoder, into.decoder), add(decoder_bias, into.decoder_bias);
    add(skip, into.skip);
  }
};

// A pass with every MLP replaced; calls `look` with each layer's active features [N, F] and what it writes
// [N, D], in scaled units.
class ReplacedPass {
 public:
  using Look = std::function<void(int64_t layer, const Tensor& active, const Tensor& written)>;

  ReplacedPass(const Transformer& model, TranscoderInput input, const TranscoderShape& shape,
               const Leaves& parts, const ActivationScales& scales, const Tensor& threshold, Look look)
      : model_(model),
        shape_(shape),
        parts_(parts),
        scales_(scales),
        threshold_(threshold),
        look_(std::move(look)),
        features_(static_cast<size_t>(shape.layers)) {
    for (int64_t l = 0; l < shape.layers; ++l) {
      taps_.read(transcoder_input(model.config(), input, l), [this, l](const Tensor& x) { encode(l, x); });
      taps_.replace({Site::kMlpOut, l}, [this, l](const Tensor& out) { return decode(l, out); });
    }
  }

  Tensor run(const Tensor& ids) {  // the stream after the last layer, [B, T, D]
    ForwardOptions forward;
    forward.taps = &taps_;
    return model_.run_layers(model_.embed(ids, forward), 0, shape_.layers, forward);
  }

 private:
  // A scale is a tensor of no dimensions: it multiplies in float32 and leaves the dtype as it is.
  void encode(int64_t l, const Tensor& x) {
    const auto n = static_cast<size_t>(l);
    input_ = x.flatten(0, 1) * scales_.input[l].reciprocal();  // [N, D]
    const Tensor before = at::linear(input_, parts_.encoder[n], parts_.encoder_bias[n]);
    active_ = before.detach() > threshold_[l].to(before.dtype());
    features_[n] = before * active_;
  }

  Tensor decode(int64_t l, const Tensor& out) {
    const auto n = static_cast<size_t>(l);
    const bool cross = shape_.kind == TranscoderKind::kCrossLayer;
    Tensor written = parts_.decoder_bias[n];
    for (size_t source = cross ? 0 : n; source <= n; ++source) {
      const size_t place = cross ? n * (n + 1) / 2 + source : n;
      written = written + at::matmul(features_[source], parts_.decoder[place]);
    }
    if (shape_.skip) written = written + at::linear(input_, parts_.skip[n]);
    look_(l, active_, written);
    return (written * scales_.output[l]).view_as(out);
  }

  const Transformer& model_;
  TranscoderShape shape_;
  const Leaves& parts_;
  const ActivationScales& scales_;
  Tensor threshold_;  // [L]
  Look look_;
  Taps taps_;
  Tensor input_, active_;         // of the layer that is being run
  std::vector<Tensor> features_;  // [L] of [N, F]
};

Tensor log_probabilities(const Transformer& model, const Tensor& stream) {
  Tensor logits = project_to_vocabulary(model.apply_norm(model.final_norm(), stream), model.unembedding());
  if (model.unembedding_bias().defined()) logits = logits + model.unembedding_bias();
  return at::log_softmax(logits, -1, logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// KL from the model's predictions to the replaced model's over `tokens`, added to `sum`, and its gradient by the
// replaced stream. Samples by few: logits are the largest thing there is.
Tensor add_distance(const Transformer& model, const Tensor& wanted, const Tensor& given, int64_t tokens,
                    const Tensor& sum) {
  const double most = given.is_cpu() ? 3e7 : 5e8;  // numbers
  const auto numbers = static_cast<double>(given.size(1) * model.config().vocabulary);
  const int64_t few = std::clamp<int64_t>(static_cast<int64_t>(most / numbers), 1, given.size(0));
  const Tensor leaf = given.detach().set_requires_grad(true);
  for (int64_t first = 0; first < given.size(0); first += few) {
    const int64_t count = std::min(few, given.size(0) - first);
    Tensor target;
    {
      const at::NoGradGuard no_grad;
      target = log_probabilities(model, wanted.narrow(0, first, count));
    }
    const Tensor answer = log_probabilities(model, leaf.narrow(0, first, count));
    const Tensor distance =
        at::kl_div(answer, target, at::Reduction::Sum, true) / static_cast<double>(tokens);
    distance.backward();
    const at::NoGradGuard no_grad;
    sum.add_(distance.detach());
  }
  return leaf.grad();
}

}  // namespace

void add_joint_pass(const Transformer& model, TranscoderInput input, const Tensor& ids,
                    const ScaledActivations& own, const TranscoderShape& shape, const TranscoderParts& parts,
                    const ActivationScales& scales, const Tensor& threshold, const JointOptions& options,
                    const PassSums& sums) {
  const at::AutoGradMode with_grad(true);
  const Leaves leaves(parts);
  std::vector<Tensor> losses;  // [L] of []
  ReplacedPass pass(model, input, shape, leaves, scales, threshold,
                    [&](int64_t l, const Tensor& active, const Tensor& written) {
                      const Tensor error = written.to(own.weights.dtype()) - own.outputs[l];
                      const Tensor unit = scales.variance[l] * static_cast<double>(options.tokens);
                      losses.push_back((error.square().sum(-1) * own.weights[l]).sum() / unit);
                      const at::NoGradGuard no_grad;
                      const Tensor fired = active.sum(0, false, at::kFloat);
                      sums.fired[l].add_(fired);
                      sums.above[l].add_(fired.sum());
                    });
  const Tensor stream = pass.run(ids);
  const Tensor gradient = add_distance(model, own.stream, stream, options.tokens, sums.distance);
  const Tensor by_layer = at::stack(losses);
  const auto layers = static_cast<double>(shape.layers);
  torch::autograd::backward({stream, by_layer},
                            {gradient, at::full_like(by_layer, options.output_weight / layers)});
  const at::NoGradGuard no_grad;
  sums.error.add_(by_layer);
  leaves.add_gradients(sums.gradients, layers * static_cast<double>(shape.width));
}

int64_t choose_joint_samples(const Transformer& model, const TranscoderShape& shape, int64_t context) {
  // Of each layer: features and their mask, and about forty numbers of the stream's width.
  const double numbers = static_cast<double>(shape.layers * (2 * shape.features + 40 * shape.width));
  const double budget = model.device().is_cpu() ? 5e8 : 2e10;
  return std::max<int64_t>(1, static_cast<int64_t>(budget / (numbers * static_cast<double>(context))));
}

void count_active(const Transformer& model, TranscoderInput input, const Tensor& ids,
                  const TranscoderShape& shape, const TranscoderParts& parts, const ActivationScales& scales,
                  const Tensor& threshold, const PassSums& sums) {
  const at::NoGradGuard no_grad;
  const Leaves leaves(parts);
  ReplacedPass pass(
      model, input, shape, leaves, scales, threshold,
      [&](int64_t l, const Tensor& active, const Tensor&) { sums.above[l].add_(active.sum(at::kFloat)); });
  pass.run(ids);
}

}  // namespace openwork
