#include "analyze/circuits/attribution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace openwork {
namespace {

// d metric_p / d z of every layer, [P, T, H, d], on the clean run or averaged over `steps` runs from corrupt
// to clean.
std::vector<Tensor> differentiate_heads(const Transformer& model, AblationRunner& runner, int64_t steps) {
  const int64_t layers = model.config().layers;
  const TaskMetricReader& reader = runner.reader();
  const Tensor clean = runner.recorded(true, Site::kEmbed, -1),
               corrupt = runner.recorded(false, Site::kEmbed, -1);
  const at::AutoGradMode with_gradients(true);
  std::vector<Tensor> sums(static_cast<size_t>(layers));
  for (int64_t step = 0; step < steps; ++step) {
    const double share = steps == 1 ? 1.0 : static_cast<double>(step) / static_cast<double>(steps);
    std::vector<Tensor> z(static_cast<size_t>(layers));
    Taps taps;
    taps.replace({Site::kEmbed, -1}, [&](const Tensor&) {
      return (corrupt + share * (clean - corrupt)).detach().requires_grad_(true);
    });
    for (int64_t n = 0; n < layers; ++n) {
      taps.read({Site::kZ, n}, [&z, n](const Tensor& value) {
        z[static_cast<size_t>(n)] = value;
        value.retain_grad();
      });
    }
    ForwardOptions options;
    options.taps = &taps;
    const Tensor x = model.run_layers(model.embed(reader.clean_ids(), options), 0, layers, options);
    reader.read(x.narrow(1, reader.output_from(), reader.tokens() - reader.output_from())).sum().backward();
    for (size_t n = 0; n < z.size(); ++n) {
      const Tensor share_of_sum = z[n].grad() / static_cast<double>(steps);
      sums[n] = sums[n].defined() ? sums[n] + share_of_sum : share_of_sum;
    }
  }
  return sums;
}

}  // namespace

Tensor attribute_heads(const Transformer& model, AblationRunner& runner, AblationKind kind, int64_t steps) {
  const std::vector<Tensor> gradients = differentiate_heads(model, runner, steps);
  const at::NoGradGuard no_grad;
  std::vector<Tensor> rows;
  for (size_t n = 0; n < gradients.size(); ++n) {
    const auto layer = static_cast<int64_t>(n);
    Tensor change = runner.recorded(true, Site::kZ, layer);
    if (kind != AblationKind::kZero) change = change - runner.replacement(Site::kZ, layer);
    rows.push_back((gradients[n] * change).sum({0, 1, 3}) / static_cast<double>(change.size(0)));  // [H]
  }
  return at::stack(rows).to(at::kCPU, at::kDouble);
}

std::vector<Tensor> attribute_attention_edges(const Transformer& model, AblationRunner& runner,
                                              AblationKind kind, int64_t steps) {
  const std::vector<Tensor> gradients = differentiate_heads(model, runner, steps);
  const at::NoGradGuard no_grad;
  const int64_t group = model.config().group_size();
  // dz_i . v_j of every pair, times A_ij: [P, H, T, T].
  const auto terms = [&](const Tensor& gradient, bool clean, int64_t layer) {
    Tensor v = runner.recorded(clean, Site::kValue, layer).transpose(1, 2);  // [P, G, T, d]
    if (group > 1) v = v.repeat_interleave(group, 1);
    return at::matmul(gradient, v.transpose(-2, -1)) * runner.recorded(clean, Site::kPattern, layer);
  };
  std::vector<Tensor> scores;
  for (size_t n = 0; n < gradients.size(); ++n) {
    const auto layer = static_cast<int64_t>(n);
    const Tensor gradient = gradients[n].transpose(1, 2);  // [P, H, T, d]
    Tensor score = terms(gradient, true, layer).mean(0);
    if (kind == AblationKind::kInterchange) score = score - terms(gradient, false, layer).mean(0);
    // The mean term is the same for all prompts: their gradients meet it averaged.
    if (kind == AblationKind::kMean) score = score - terms(gradient.mean(0, true), false, layer).mean(0);
    scores.push_back(score.to(at::kCPU, at::kDouble));
  }
  return scores;
}

}  // namespace openwork
