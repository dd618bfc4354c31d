// The cost of a training step with gates: whole steps (pass, backward, clipping, AdamW) of a model of a known
// shape with random weights on random tokens, beside the same step without gates and the step with attention
// written out, one after the other in one run.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"

namespace openwork {

struct TrainBenchOptions {
  std::string shape = "openwork-8m";  // one of train_bench_shapes()
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  int64_t samples = 16, context = 1024;
  int steps = 5;                       // timed ones, after two that warm up
  std::optional<int64_t> lora;         // a rank: only low-rank changes are trained
  std::vector<std::string> lora_full;  // but of these modules whole weights
  uint64_t seed = 0;
  std::filesystem::path
      profile;  // a folder, where given: traces of a dense step and of one with sampled idle gates
};

struct TrainBenchRow {
  std::string way;
  int64_t samples = 0;  // in a step: fewer where attention is written out, which fills the memory
  double tokens_per_second = 0;
  double ratio = 0;      // of dense's time per token: 1.2 is a fifth slower
  double teraflops = 0;  // useful ones: 6 per matrix weight and token, and attention's causal half
  double peak_megabytes = 0;
};

std::vector<std::string> train_bench_shapes();

// `done` is told every row as it is finished.
std::vector<TrainBenchRow> bench_training(const TrainBenchOptions& options,
                                          const std::function<void(const TrainBenchRow&)>& done);

}  // namespace openwork
