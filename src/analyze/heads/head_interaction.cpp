#include "analyze/heads/head_interaction.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>

#include "model/head_rows.h"

namespace openwork {
namespace {

constexpr std::array<char, 3> kSides = {'q', 'k', 'v'};
constexpr size_t kStrongestKept = 50;

// The projections of a layer, one matrix per head: queries, then keys, then values: [H + 2 G, d, D].
Tensor projections_of(const Transformer& model, int64_t index) {
  const auto rows = [&](HeadInput input) {
    return head_rows(model.layer(index), model.config(), input, false);
  };
  return at::cat({rows(HeadInput::kQuery), rows(HeadInput::kKey), rows(HeadInput::kValue)});
}

// Each head's way into the stream, through what the norm between the two layers does to it: [H, d, D].
Tensor writings_of(const Transformer& model, int64_t earlier, int64_t later) {
  const ModelConfig& config = model.config();
  Tensor out = model.layer(earlier).attention_output.matrix().t().reshape(
      {config.heads, config.head_size, config.width});
  out = out.to(at::kFloat);
  if (config.norm != NormKind::kRmsNorm) out = out - out.mean(-1, true);
  const int64_t normed_at = config.norm_placement == NormPlacement::kBefore ? later : earlier;
  const Tensor& weight = model.layer(normed_at).norm1.weight;
  return weight.defined() ? out * weight.to(at::kFloat) : out;
}

// Norms of vectors [..., rows, C * d] taken over rows and over the d of each of C heads: [..., C].
Tensor norms_by_head(const Tensor& vectors, int64_t d) {
  return vectors.unflatten(-1, {-1, d}).square().sum({-3, -1}).sqrt();
}

// Shares by key/value head repeated for the query heads that read them: [E, H + 2 G] -> [3, E, H].
Tensor spread_to_heads(const Tensor& shares, const ModelConfig& config) {
  const std::vector<Tensor> parts =
      shares.split_with_sizes({config.heads, config.kv_heads, config.kv_heads}, -1);
  return at::stack({parts[0], parts[1].repeat_interleave(config.group_size(), -1),
                    parts[2].repeat_interleave(config.group_size(), -1)});
}

}  // namespace

struct InteractionMeter::Sums {
  std::vector<double> pairs;                // strongly interacting, per prompt
  std::vector<InteractingPair> candidates;  // mean share over prompts at the level or above
};

void InteractionMeter::add_taps(Taps& taps) {
  const ModelConfig& config = model_.config();
  const auto layers = static_cast<size_t>(config.layers);
  current_ = {std::vector<Tensor>(layers), std::vector<Tensor>(layers), std::vector<Tensor>(layers), {}};
  const bool before = config.norm_placement == NormPlacement::kBefore;
  const auto without_first = [](const Tensor& x) { return x[0].narrow(0, 1, x.size(1) - 1).to(at::kFloat); };
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto n = static_cast<size_t>(layer);
    taps.read({Site::kZ, layer},
              [=, this](const Tensor& z) { current_.z[n] = without_first(z).transpose(0, 1).contiguous(); });
    taps.read({Site::kNorm1Scale, layer},
              [=, this](const Tensor& scale) { current_.scale[n] = without_first(scale); });
    taps.read({before ? Site::kNorm1Normalized : Site::kResidPre, layer},
              [=, this](const Tensor& x) { current_.input[n] = without_first(x); });
  }
}

void InteractionMeter::end_prompt(const std::vector<bool>& blank) {
  current_.blank = blank;
  prompts_.push_back(std::move(current_));
}

void InteractionMeter::add_layer_pair(int64_t earlier, int64_t later, double level, Sums& sums) const {
  const ModelConfig& config = model_.config();
  const int64_t H = config.heads, d = config.head_size;
  const bool before = config.norm_placement == NormPlacement::kBefore;
  const Tensor reading = projections_of(model_, later).to(at::kFloat).flatten(0, 1).t();  // [D, C d]
  const Tensor through = at::matmul(writings_of(model_, earlier, later), reading);        // [H, d, C d]
  Tensor total = at::zeros({3, H, H}, at::kDouble);
  for (size_t n = 0; n < prompts_.size(); ++n) {
    const Prompt& prompt = prompts_[n];
    const Tensor& scale = prompt.scale[static_cast<size_t>(before ? later : earlier)];
    const Tensor parts =
        at::matmul(prompt.z[static_cast<size_t>(earlier)] / scale, through);  // [H, T - 1, C d]
    const Tensor whole =
        norms_by_head(at::matmul(prompt.input[static_cast<size_t>(later)], reading), d);  // [C]
    const Tensor shares = spread_to_heads(norms_by_head(parts, d) / whole.clamp_min(1e-30), config)
                              .to(at::kCPU, at::kDouble)
                              .contiguous();
    Tensor open = at::ones({H}, at::kDouble);
    for (int64_t h = 0; h < H; ++h) {
      if (prompt.blank[static_cast<size_t>(later * H + h)]) open[h] = 0;
    }
    const Tensor read = shares * open;
    sums.pairs[n] += (std::get<0>(read.max(0)) >= level).sum().item<double>();
    total += read;
  }
  const Tensor mean = (total / static_cast<double>(prompts_.size())).contiguous();
  const double* values = mean.data_ptr<double>();
  for (int64_t e = 0; e < H; ++e) {
    for (int64_t h = 0; h < H; ++h) {
      InteractingPair pair{earlier * H + e, later * H + h};
      for (size_t side = 0; side < kSides.size(); ++side) {
        const double share = values[(static_cast<int64_t>(side) * H + e) * H + h];
        if (share > pair.share) pair.share = share, pair.side = kSides[side];
      }
      if (pair.share >= level) sums.candidates.push_back(pair);
    }
  }
}

Interactions InteractionMeter::finish(double level) const {
  const at::NoGradGuard no_grad;
  Sums sums;
  sums.pairs.assign(prompts_.size(), 0.0);
  if (!prompts_.empty()) {
    for (int64_t later = 1; later < model_.config().layers; ++later) {
      for (int64_t earlier = 0; earlier < later; ++earlier) add_layer_pair(earlier, later, level, sums);
    }
  }
  std::stable_sort(sums.candidates.begin(), sums.candidates.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  if (sums.candidates.size() > kStrongestKept) sums.candidates.resize(kStrongestKept);
  return {level, sums.pairs, sums.candidates};
}

}  // namespace openwork
