#include "analyze/pruning.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/head_place.h"
#include "model/kept_heads.h"
#include "train/gather_blocks.h"

namespace openwork {
namespace {

HeadWorths no_numbers(const ModelConfig& config) {
  return HeadWorths(static_cast<size_t>(config.layers),
                    std::vector<double>(static_cast<size_t>(config.heads), 0.0));
}

std::vector<HeadPlace> list_heads(const ModelConfig& config) {
  std::vector<HeadPlace> places;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    for (const int64_t head : kept_queries(config, layer)) places.push_back({layer, head});
  return places;
}

// One block's pass: the stream x before each layer and the heads' z in it, and from any layer on to the loss.
class BlockPass {
 public:
  BlockPass(const Transformer& model, const TokenBlocks& blocks, int64_t block)
      : model_(model), targets_(gather_blocks(blocks, block, 1, 1).flatten().to(model.device())) {
    Taps taps;
    for (int64_t layer = 0; layer < model.config().layers; ++layer) {
      taps.read({Site::kResidPre, layer}, [this](const Tensor& x) { x_.push_back(x); });
      taps.read({Site::kZ, layer}, [this](const Tensor& z) { z_.push_back(z); });
    }
    ForwardOptions options;
    options.taps = &taps;
    clean_ = loss_of(model.forward(gather_blocks(blocks, block, 1, 0).to(model.device()), options));
  }

  double clean() const { return clean_; }

  // The loss without one head; that of the whole model where the head wrote nothing here.
  double without(const HeadPlace& place) const {
    const auto layer = static_cast<size_t>(place.layer);
    Tensor z = z_[layer].clone();  // [1, T, H, d]
    const Tensor own = z.select(2, place.head);
    if (own.count_nonzero().item<int64_t>() == 0) return clean_;
    own.zero_();
    const Tensor x = model_.finish_layer(x_[layer], z, place.layer);
    return loss_of(model_.unembed(model_.run_layers(x, place.layer + 1, model_.config().layers)));
  }

 private:
  double loss_of(const Tensor& logits) const {
    return at::cross_entropy_loss(logits.flatten(0, 1).to(at::kFloat), targets_).item<double>();
  }

  const Transformer& model_;
  Tensor targets_;             // [T]
  std::vector<Tensor> x_, z_;  // per layer [1, T, D], [1, T, H, d]
  double clean_ = 0;
};

}  // namespace

void check_settings(const PruneSettings& settings, const ModelConfig& config, const std::string& model) {
  const int64_t heads = count_kept_heads(config);
  if (settings.by == PruneBy::kEdges && config.gate == GateKind::kNone)
    fail_input("the model has no gates, so every head keeps all its edges", model,
               "use --by effect, or sparsify it first");
  if (settings.below && settings.keep)
    fail_input("a level and a number of heads", "--below and --keep", "give one of them");
  if (settings.by == PruneBy::kEffect && !settings.below && !settings.keep)
    fail_input("no level is given", "--by effect", "add --below NATS or --keep N");
  const bool share = settings.by == PruneBy::kEdges;
  if (settings.below &&
      (!std::isfinite(*settings.below) || (share && (*settings.below < 0 || *settings.below > 1))))
    fail_input(fmt::format("a level of {}", *settings.below), "--below",
               share ? "use a share of edges from 0 to 1, such as 0.0001" : "use a number");
  if (settings.keep && (*settings.keep < 0 || *settings.keep > heads))
    fail_input(fmt::format("{} heads to keep", *settings.keep), "--keep",
               fmt::format("the model has {} heads", heads));
}

HeadWorths measure_loss_effects(const Transformer& model, const TokenBlocks& blocks,
                                const std::function<void(int64_t)>& advance) {
  const at::NoGradGuard no_grad;
  HeadWorths worth = no_numbers(model.config());
  const std::vector<HeadPlace> places = list_heads(model.config());
  for (int64_t block = 0; block < blocks.count; ++block) {
    const BlockPass pass(model, blocks, block);
    for (const HeadPlace& place : places) {
      worth[static_cast<size_t>(place.layer)][static_cast<size_t>(place.head)] +=
          (pass.without(place) - pass.clean()) / static_cast<double>(blocks.count);
      if (advance) advance(1);
    }
  }
  return worth;
}

HeadWorths measure_task_effects(const Transformer& model, const Task& task) {
  Sweep sweep("", {});
  HeadWorths worth = no_numbers(model.config());
  for (const PartEffect& entry :
       measure_effects(model, task, {.ablation = AblationKind::kZero}, sweep).effects)
    worth[static_cast<size_t>(entry.part.layer)][static_cast<size_t>(entry.part.head)] =
        std::abs(entry.effect);
  return worth;
}

std::vector<std::vector<int64_t>> choose_heads(const ModelConfig& config, const HeadWorths& worth,
                                               const PruneSettings& settings) {
  const auto worth_of = [&](const HeadPlace& place) {
    return worth[static_cast<size_t>(place.layer)][static_cast<size_t>(place.head)];
  };
  std::vector<HeadPlace> places = list_heads(config);
  if (settings.keep) {
    std::stable_sort(places.begin(), places.end(),
                     [&](const HeadPlace& a, const HeadPlace& b) { return worth_of(a) > worth_of(b); });
    places.resize(static_cast<size_t>(*settings.keep));
    std::sort(places.begin(), places.end());
  } else {
    const double level = settings.below.value_or(0);
    std::erase_if(places, [&](const HeadPlace& place) {
      return worth_of(place) < level || (settings.by == PruneBy::kEdges && worth_of(place) == 0);
    });
  }
  std::vector<std::vector<int64_t>> kept(static_cast<size_t>(config.layers));
  for (const HeadPlace& place : places) kept[static_cast<size_t>(place.layer)].push_back(place.head);
  return kept;
}

int64_t count_parameters(const Transformer& model) {
  int64_t count = 0;
  for (const auto& [name, tensor] : model.parameters()) count += tensor.numel();
  return count;
}

double compare_logits(const Transformer& a, const Transformer& b, const TokenBlocks& blocks) {
  const at::NoGradGuard no_grad;
  const Tensor ids = gather_blocks(blocks, 0, 1, 0).to(a.device());
  return (a.forward(ids) - b.forward(ids)).abs().max().item<double>();
}

}  // namespace openwork
