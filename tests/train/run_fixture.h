// A tiny run for tests: tests/data/gpt2 with gates on random tokens, a few milliseconds a step.
#pragma once
#include <ATen/ATen.h>

#include <filesystem>

#include "io/safetensors.h"
#include "io/test_files.h"
#include "model/load.h"
#include "train/batches.h"
#include "train/loop.h"
#include "train/sparsify.h"

namespace openwork {

// The same tokens always: those that are there already stay.
inline std::filesystem::path write_tokens(const TestFolder& folder, int64_t count = 2000) {
  if (std::filesystem::exists(folder / "tokens.safetensors")) return folder / "tokens.safetensors";
  std::vector<uint16_t> tokens;
  for (int64_t n = 0; n < count; ++n) tokens.push_back(static_cast<uint16_t>((n * n * 31 + n / 3) % 97));
  write_safetensors(folder / "tokens.safetensors", {{"tokens", DType::kU16, {count}, bytes_of(tokens)}});
  return folder / "tokens.safetensors";
}

inline LoopOptions tiny_options(const std::filesystem::path& folder, int64_t steps = 12) {
  LoopOptions options;
  options.folder = folder;
  options.seed = 3;
  options.batch = 4;
  options.steps = steps;
  options.learning_rate = 1e-2;
  options.log_every = 3;
  options.checkpoint_every = 5;
  options.multiplier = MultiplierOptions{};
  options.target = 4;
  options.schedule.noise_anneal = 0.25;
  options.schedule.bias_shift = -0.5;
  options.loss.head_penalty = 0.1;
  return options;
}

// What may be trained, by name: all weights, low ranks of some, or some whole and low ranks of the others.
inline std::vector<std::pair<std::string, std::optional<LoraOptions>>> ways_to_train() {
  return {{"full", {}},
          {"lora", LoraOptions{2, 4, {"attention"}}},
          {"mixed", LoraOptions{2, 4, {"all"}, {"attention"}}}};
}

struct TinyRun {
  // `more`: dtype, share of ranks, whether biases are learned.
  explicit TinyRun(const TestFolder& folder, std::optional<LoraOptions> lora = std::nullopt,
                   GateKind gate = GateKind::kLogprob, const WeightOptions& more = {.learn_bias = true})
      : batches(write_tokens(folder), 16, 3), weights(make(lora, gate, more)) {}

  static TrainedWeights make(const std::optional<LoraOptions>& lora, GateKind gate,
                             WeightOptions options = {.learn_bias = true}) {
    StartingPoint start = put_gates(load_model("tests/data/gpt2"), gate, 3.0, 0.5);
    options.lora = lora;
    options.learn_idle = gate == GateKind::kIdle;
    return TrainedWeights(start.config, start.parameters, options);
  }

  LoopResult run(const LoopOptions& options) { return run_loop(weights, batches, nullptr, options); }

  Batches batches;
  TrainedWeights weights;
};

}  // namespace openwork
