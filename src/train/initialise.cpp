#include "train/initialise.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "base/philox.h"
#include "io/json.h"
#include "model/architecture.h"
#include "ops/threads.h"

namespace openwork {
namespace {

bool is_norm(Role role) {
  return role == Role::kNorm1 || role == Role::kNorm2 || role == Role::kQueryNorm || role == Role::kKeyNorm ||
         role == Role::kFinalNorm;
}

// Norms are 1, biases 0, what writes back to the stream is smaller by the number of blocks that do.
Tensor draw_parameter(const ParameterSpec& spec, uint64_t seed, double deviation, double residual) {
  Tensor tensor = at::zeros(spec.shape, at::kFloat);
  if (spec.bias) return tensor;
  if (is_norm(spec.role)) return tensor.fill_(1);
  const bool writes_back = spec.role == Role::kAttentionOutput || spec.role == Role::kDown;
  return tensor.normal_(0, writes_back ? residual : deviation, at::detail::createCPUGenerator(seed));
}

}  // namespace

Transformer draw_model(ModelConfig config, uint64_t seed) {
  const at::NoGradGuard no_grad;
  config.gate = GateKind::kNone;
  const double deviation = ConfigReader(config.source, "config.json").number_or("initializer_range", 0.02);
  const double residual = deviation / std::sqrt(2 * static_cast<double>(config.layers));
  const std::vector<ParameterSpec> specs =
      list_parameters(architecture_named(config.architecture, "model"), config);
  NamedTensors parameters(specs.size());
  // Every tensor has a stream of its own, so that a model of billions is drawn on all cores, the same on any.
  share_range(static_cast<int64_t>(specs.size()), 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_grad_here;
    for (int64_t n = begin; n < end; ++n) {
      const ParameterSpec& spec = specs[static_cast<size_t>(n)];
      parameters[static_cast<size_t>(n)] = {
          spec.name,
          draw_parameter(spec, mix_seed(seed, 0x696e6974 + static_cast<uint64_t>(n)), deviation, residual)};
    }
  });
  return {std::move(config), std::move(parameters)};
}

ModelConfig read_config_file(const std::filesystem::path& path) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "config.json" : path;
  return read_model_config(read_json_file(file), file.string());
}

}  // namespace openwork
