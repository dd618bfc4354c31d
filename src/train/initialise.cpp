#include "train/initialise.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "base/philox.h"
#include "io/json.h"
#include "model/architecture.h"

namespace openwork {
namespace {

bool is_norm(Role role) {
  return role == Role::kNorm1 || role == Role::kNorm2 || role == Role::kQueryNorm || role == Role::kKeyNorm ||
         role == Role::kFinalNorm;
}

}  // namespace

Transformer draw_model(ModelConfig config, uint64_t seed) {
  const at::NoGradGuard no_grad;
  config.gate = GateKind::kNone;
  const double deviation = ConfigReader(config.source, "config.json").number_or("initializer_range", 0.02);
  const double residual = deviation / std::sqrt(2 * static_cast<double>(config.layers));
  at::Generator generator = at::detail::createCPUGenerator(mix_seed(seed, 0x696e6974));
  NamedTensors parameters;
  for (const ParameterSpec& spec :
       list_parameters(architecture_named(config.architecture, "model"), config)) {
    Tensor tensor = at::zeros(spec.shape, at::kFloat);
    if (spec.bias) {
      // stays 0
    } else if (is_norm(spec.role)) {
      tensor.fill_(1);
    } else {
      const bool writes_back = spec.role == Role::kAttentionOutput || spec.role == Role::kDown;
      tensor.normal_(0, writes_back ? residual : deviation, generator);
    }
    parameters.emplace_back(spec.name, tensor);
  }
  return {std::move(config), std::move(parameters)};
}

ModelConfig read_config_file(const std::filesystem::path& path) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "config.json" : path;
  return read_model_config(read_json_file(file), file.string());
}

}  // namespace openwork
