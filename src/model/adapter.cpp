#include "model/adapter.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/safe_files.h"
#include "model/adapter_config.h"
#include "model/architecture.h"
#include "model/delta.h"
#include "model/save.h"
#include "model/weights.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPrefix = "base_model.model.";

std::vector<ParameterSpec> specs_of(const ModelConfig& config) {
  return list_parameters(architecture_named(config.architecture, "model"), config);
}

struct AdapterFile {
  AdapterConfig config;
  std::shared_ptr<const TensorFile> tensors;
};

AdapterFile open_adapter(const fs::path& folder) {
  const fs::path path = folder / "adapter_config.json";
  return {read_adapter_config(read_json_file(path), path.string()),
          open_weights(folder / "adapter_model.safetensors")};
}

void check_parts(const Tensor& weight, const Tensor& a, const Tensor& b, int64_t rank, bool transposed,
                 const std::string& name, const std::string& origin) {
  const bool matrix = weight.dim() == 2;
  const int64_t in = matrix ? weight.size(transposed ? 0 : 1) : 0,
                out = matrix ? weight.size(transposed ? 1 : 0) : 0;
  const bool fits = matrix && a.defined() && b.defined() && a.dim() == 2 && b.dim() == 2 && a.size(1) == in &&
                    b.size(0) == out && a.size(0) == b.size(1);
  if (!fits) {
    fail_input(
        fmt::format("lora_A and lora_B of '{}' do not fit its {} inputs and {} outputs", name, in, out),
        origin, "the adapter and the model must belong together");
  }
  if (a.size(0) != rank) {
    fail_input(fmt::format("lora_A of '{}' has rank {}, wanted {}", name, a.size(0), rank), origin,
               "r or rank_pattern of adapter_config.json must be the tensors' own");
  }
}

// The adapter's tensors are named from the transformers model down; GPT-2's from "transformer." on.
class AdapterTensors {
 public:
  AdapterTensors(const AdapterFile& file, const LoadOptions& options)
      : config_(file.config),
        reader_(file.tensors, at::kFloat, true),
        device_(options.device),
        dtype_(options.dtype) {}

  // A parameter as the adapter has it: whole, with B A added, or as it was.
  Tensor adapt(const ParameterSpec& spec, const Tensor& weight, const ModelConfig& model) {
    if (is_gate(spec.role)) return weight;
    // PEFT would change a tied embedding's one use and not the other.
    const bool may_be_whole = !(model.tied && spec.role == Role::kEmbedding);
    if (const Tensor whole = may_be_whole ? read_whole(spec) : Tensor(); whole.defined())
      return whole.to(dtype_);
    if (spec.bias) return weight;
    const std::string module = module_name(spec.name);
    const Tensor a = read(module + ".lora_A.weight"), b = read(module + ".lora_B.weight");
    if (!a.defined() && !b.defined()) return weight;
    check_parts(weight, a, b, config_.rank_of(module), model.transposed_linear, module,
                reader_.file().origin());
    return add_lora(weight.to(at::kFloat), a, b, config_.scale_of(module), model.transposed_linear)
        .to(dtype_);
  }

  // Of a gate that the adapter puts on: must be there, with a number for each head.
  Tensor read_gate(const ParameterSpec& spec) {
    const std::string whole = kPrefix + spec.name;
    used_.insert(whole);
    Tensor gate;
    if (reader_.has(whole)) gate = reader_.read_gate(whole, spec.role == Role::kGateIdle);
    if (gate.defined() && gate.sizes().equals(spec.shape)) return gate.to(device_);
    fail_input(fmt::format("tensor '{}' is missing or not of {} heads", whole, spec.shape.front()),
               reader_.file().origin(), "the adapter and the model must belong together");
  }

  void check_nothing_left() const {
    for (const TensorEntry& entry : reader_.file().entries()) {
      if (used_.contains(entry.name)) continue;
      fail_input(fmt::format("unexpected tensor '{}'", printable(entry.name)), reader_.file().origin(),
                 "the adapter and the model must belong together");
    }
  }

 private:
  Tensor read(const std::string& name) {
    const std::string whole = kPrefix + name;
    used_.insert(whole);
    return reader_.has(whole) ? reader_.read(whole).to(device_) : Tensor();
  }

  // Must be there where the configuration says so, and fit where it is.
  Tensor read_whole(const ParameterSpec& spec) {
    const Tensor found = read(spec.name);
    if (found.defined() ? found.sizes().equals(spec.shape) : !config_.is_whole(spec.name)) return found;
    fail_input(fmt::format("tensor '{}{}' is {}", kPrefix, spec.name,
                           found.defined() ? "of another shape than the model's" : "missing"),
               reader_.file().origin(), "the adapter and the model must belong together");
  }

  const AdapterConfig& config_;
  WeightReader reader_;
  at::Device device_;
  at::ScalarType dtype_;
  std::set<std::string> used_;
};

}  // namespace

Tensor add_lora(const Tensor& weight, const Tensor& a, const Tensor& b, double scale, bool transposed) {
  const Tensor change = at::matmul(b, a);  // [out, in]
  return at::add(weight, (transposed ? change.t() : change).to(weight.dtype()), scale);
}

void save_adapter(const fs::path& folder, const ModelConfig& config, const LoraOptions& options,
                  const NamedTensors& tensors, const std::string& base_name, at::ScalarType dtype) {
  make_folder(folder);
  const std::vector<std::string> full = find_full_parameters(config, options);
  const std::set<std::string> whole(full.begin(), full.end());
  NamedTensors named;
  for (const auto& [name, tensor] : tensors)
    named.emplace_back(kPrefix + name, whole.contains(name) ? tensor.to(dtype) : tensor);
  save_tensors(folder / "adapter_model.safetensors", named);
  nlohmann::json json = {{"peft_type", "LORA"},
                         {"task_type", "CAUSAL_LM"},
                         {"base_model_name_or_path", base_name},
                         {"r", options.rank},
                         {"lora_alpha", options.alpha},
                         {"lora_dropout", 0.0},
                         {"bias", "none"},
                         {"fan_in_fan_out", config.transposed_linear},
                         {"target_modules", name_for_peft(config, find_lora_targets(config, options))},
                         {"inference_mode", true}};
  if (!full.empty()) json["modules_to_save"] = name_for_peft(config, full);
  if (config.gate != GateKind::kNone) json["attention_gate"] = describe_gate(config.gate);
  write_text_file(folder / "adapter_config.json", json.dump(2) + "\n");
}

Transformer load_adapted_model(const fs::path& base, const fs::path& adapter, const LoadOptions& options) {
  if (is_delta(adapter)) return load_delta_model(base, adapter, options);
  const AdapterFile file = open_adapter(adapter);
  AdapterTensors tensors(file, options);
  std::optional<Transformer> model =
      load_model(base, {options.dtype, options.device, /*trainable=*/options.trainable});
  ModelConfig config = model->config();
  if (file.config.gate != GateKind::kNone) config.gate = file.config.gate;
  // Each of the base's weights is let go of when it has become the adapter's: never two whole models.
  std::map<std::string, Tensor> own(model->parameters().begin(), model->parameters().end());
  model.reset();
  NamedTensors parameters;
  for (const ParameterSpec& spec : specs_of(config)) {
    if (is_gate(spec.role) && file.config.gate != GateKind::kNone) {
      parameters.emplace_back(spec.name, tensors.read_gate(spec));
    } else {
      const Tensor weight = std::exchange(own.at(spec.name), Tensor()).detach();
      parameters.emplace_back(spec.name, tensors.adapt(spec, weight, config));
    }
  }
  tensors.check_nothing_left();
  Transformer adapted(std::move(config), std::move(parameters));
  if (options.trainable) adapted.require_grad(true);
  return adapted;
}

}  // namespace openwork
