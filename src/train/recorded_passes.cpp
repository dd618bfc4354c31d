#include "train/recorded_passes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "base/progress.h"
#include "train/environment.h"

namespace openwork {
namespace {

PassLoss without_graph(PassLoss loss) {
  loss.loss = loss.loss.detach();  // what it holds of the graph would keep the pass's memory
  return loss;
}

void renew(Tensor& held, const Tensor& given) {
  if (held.defined()) held.copy_(given);
}

}  // namespace

std::unique_ptr<Recorder> pass_recorder(const WeightOptions& weights) {
  if (is_set_to("OPENWORK_GRAPHS", "0")) return nullptr;
  if (weights.ranks > 1 || weights.lora || weights.recompute) return nullptr;
  return make_recorder(weights.device);
}

PassLoss RecordedPasses::run(const PassInputs& inputs, const Pass& pass) {
  if (!recorder_) return without_graph(pass(inputs));
  const Kind kind{inputs.tokens.size(0), inputs.tokens.size(1), inputs.draw.first,
                  inputs.draw.seed.has_value(), inputs.draw.sharpness};
  if (!kinds_.contains(kind) && kinds_.size() == kMostKinds) return without_graph(pass(inputs));
  const auto [place, is_new] = kinds_.try_emplace(kind);
  if (is_new) return without_graph(pass(inputs));
  Recorded& recorded = place->second;
  if (!recorded.recording && !record(recorded, inputs, pass)) {
    stop();
    return without_graph(pass(inputs));
  }
  const at::NoGradGuard no_grad;
  renew(recorded.inputs.tokens, inputs.tokens), renew(recorded.inputs.lambda, inputs.lambda);
  renew(recorded.inputs.slopes, inputs.slopes), renew(recorded.inputs.head_penalty, inputs.head_penalty);
  recorded.recording->play(seeds_for(recorded.inputs.draw, inputs.draw));
  return recorded.loss;
}

// False where that cannot be done.
bool RecordedPasses::record(Recorded& recorded, const PassInputs& inputs, const Pass& pass) {
  if (!recorder_->has_room()) return false;
  const auto own = [](const Tensor& x) { return x.defined() ? x.detach().clone() : x; };
  recorded.inputs = {own(inputs.tokens), inputs.draw, own(inputs.lambda), own(inputs.slopes),
                     own(inputs.head_penalty)};
  try {
    recorded.recording = recorder_->record([&] { recorded.loss = without_graph(pass(recorded.inputs)); });
  } catch (const c10::Error& error) {
    note(fmt::format("warning: passes are not recorded, which costs speed alone: {}",
                     error.what_without_backtrace()));
    return false;
  }
  return true;
}

// From here on passes are computed as they are written.
void RecordedPasses::stop() {
  kinds_.clear();
  recorder_.reset();
}

NewSeeds RecordedPasses::seeds_for(const GateDraw& recorded, const GateDraw& wanted) const {
  NewSeeds seeds;
  if (!wanted.seed) return seeds;
  for (int64_t layer = 0; layer < layers_; ++layer)
    seeds[*recorded.of_layer(layer).seed] = *wanted.of_layer(layer).seed;
  return seeds;
}

}  // namespace openwork
