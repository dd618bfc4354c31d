#include "analyze/model_cost.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "model/kept_heads.h"

namespace openwork {
namespace {

constexpr int64_t kCostTokens = 24;  // generated
constexpr int kRounds = 5;

double seconds_until_read(const std::function<Tensor()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work().cpu();  // waits for the device
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ModelCost measure_cost(const Transformer& model, const Tensor& ids) {
  const at::NoGradGuard no_grad;
  const ModelConfig& config = model.config();
  ModelCost cost{.heads = config.layers * config.heads, .kept_heads = count_kept_heads(config)};
  for (const auto& [name, tensor] : model.parameters()) {
    cost.parameters += tensor.numel();
    cost.weight_megabytes += static_cast<double>(tensor.nbytes()) / 1048576;
  }
  cost.prompt_tokens = std::min(ids.size(1), config.context - kCostTokens);
  if (cost.prompt_tokens < 1) return cost;
  cost.generated_tokens = kCostTokens;
  const Tensor prompt = ids.narrow(1, 0, cost.prompt_tokens).to(model.device());
  // Models are timed one after another, so what else the machine does must not count: the best of the rounds.
  std::vector<double> prompt_seconds, generation_seconds;
  for (int round = 0; round <= kRounds; ++round) {
    KeyValueCache cache(config.layers, cost.prompt_tokens + kCostTokens);
    ForwardOptions options;
    options.cache = &cache, options.last_only = true;
    Tensor token;  // [1, 1]
    const double first =
        seconds_until_read([&] { return token = model.forward(prompt, options).argmax(-1); });
    const double rest = seconds_until_read([&] {
      for (int64_t step = 1; step < kCostTokens; ++step) token = model.forward(token, options).argmax(-1);
      return token;
    });
    if (round == 0) continue;  // once unmeasured
    prompt_seconds.push_back(first), generation_seconds.push_back(rest);
  }
  cost.prompt_speed = static_cast<double>(cost.prompt_tokens) / *std::ranges::min_element(prompt_seconds);
  cost.generation_speed =
      static_cast<double>(kCostTokens - 1) / *std::ranges::min_element(generation_seconds);
  return cost;
}

}  // namespace openwork
