#include "model/adapter.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <set>

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

bool is_attention(Role role) {
  return role == Role::kQkv || role == Role::kQuery || role == Role::kKey || role == Role::kValue ||
         role == Role::kAttentionOutput;
}
bool is_mlp(Role role) {
  return role == Role::kUp || role == Role::kGate || role == Role::kDown;
}

std::string last_part(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

std::vector<ParameterSpec> specs_of(const ModelConfig& config) {
  return list_parameters(architecture_named(config.architecture, "model"), config);
}

// GPT-2 calls two modules c_proj; "attn.c_proj" tells them apart, as PEFT's endings do.
bool names_module(const std::string& target, const ParameterSpec& spec, const std::string& module) {
  if (target == "all") return true;
  if (target == "attention") return is_attention(spec.role);
  if (target == "mlp") return is_mlp(spec.role);
  return module == target || module.ends_with("." + target);
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

// The adapter's tensors are named from the transformers model down; GPT-2's from "transformer." on.
class AdapterTensors {
 public:
  AdapterTensors(const AdapterFile& file, const LoadOptions& options)
      : reader_(file.tensors, at::kFloat, true), device_(options.device) {}

  Tensor read(const std::string& name) {
    const std::string whole = kPrefix + name;
    used_.insert(whole);
    return reader_.has(whole) ? reader_.read(whole).to(device_) : Tensor();
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
  WeightReader reader_;
  at::Device device_;
  std::set<std::string> used_;
};

void check_parts(const Tensor& weight, const Tensor& a, const Tensor& b, bool transposed,
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
}

}  // namespace

std::string module_name(const std::string& parameter) {
  constexpr std::string_view kEnding = ".weight";
  return parameter.ends_with(kEnding) ? parameter.substr(0, parameter.size() - kEnding.size()) : parameter;
}

std::vector<std::string> find_lora_targets(const ModelConfig& config, const LoraOptions& options) {
  std::vector<std::string> found;
  std::set<std::string> known, missing(options.targets.begin(), options.targets.end());
  for (const ParameterSpec& spec : specs_of(config)) {
    if (spec.bias || !(is_attention(spec.role) || is_mlp(spec.role))) continue;
    const std::string module = module_name(spec.name);
    known.insert(last_part(module));
    bool wanted = false;
    for (const std::string& target : options.targets) {
      if (!names_module(target, spec, module)) continue;
      missing.erase(target);
      wanted = true;
    }
    if (wanted) found.push_back(spec.name);
  }
  if (!missing.empty() || found.empty()) {
    fail_input(fmt::format("no module is called '{}'", missing.empty() ? "" : printable(*missing.begin())),
               "--lora-targets",
               fmt::format("use all, attention, mlp, or some of {}", fmt::join(known, ", ")));
  }
  return found;
}

Tensor add_lora(const Tensor& weight, const Tensor& a, const Tensor& b, double scale, bool transposed) {
  const Tensor change = at::matmul(b, a);  // [out, in]
  return at::add(weight, (transposed ? change.t() : change).to(weight.dtype()), scale);
}

void save_adapter(const fs::path& folder, const ModelConfig& config, const LoraOptions& options,
                  const NamedTensors& tensors, const std::string& base_name) {
  make_folder(folder);
  std::set<std::string> modules;
  for (const std::string& name : find_lora_targets(config, options)) {
    const std::string module = module_name(name), parent = last_part(module.substr(0, module.rfind('.')));
    modules.insert(last_part(module) == "c_proj" ? parent + ".c_proj" : last_part(module));
  }
  NamedTensors named;
  for (const auto& [name, tensor] : tensors) named.emplace_back(kPrefix + name, tensor);
  save_tensors(folder / "adapter_model.safetensors", named);
  nlohmann::json json = {{"peft_type", "LORA"},
                         {"task_type", "CAUSAL_LM"},
                         {"base_model_name_or_path", base_name},
                         {"r", options.rank},
                         {"lora_alpha", options.alpha},
                         {"lora_dropout", 0.0},
                         {"bias", "none"},
                         {"fan_in_fan_out", config.transposed_linear},
                         {"target_modules", modules},
                         {"inference_mode", true}};
  if (config.gate != GateKind::kNone) json["attention_gate"] = describe_gate(config.gate);
  write_text_file(folder / "adapter_config.json", json.dump(2) + "\n");
}

Transformer load_adapted_model(const fs::path& base, const fs::path& adapter, const LoadOptions& options) {
  if (is_delta(adapter)) return load_delta_model(base, adapter, options);
  const AdapterFile file = open_adapter(adapter);
  const std::string origin = file.tensors->origin();
  AdapterTensors tensors(file, options);
  Transformer model = load_model(base, {options.dtype, options.device, /*trainable=*/options.trainable});
  ModelConfig config = model.config();
  if (file.config.gate != GateKind::kNone) config.gate = file.config.gate;
  std::map<std::string, Tensor> own(model.parameters().begin(), model.parameters().end());
  NamedTensors parameters;
  for (const ParameterSpec& spec : specs_of(config)) {
    if (is_gate(spec.role) && file.config.gate != GateKind::kNone) {
      parameters.emplace_back(spec.name, tensors.read_gate(spec));
      continue;
    }
    Tensor weight = own.at(spec.name).detach();
    const std::string module = module_name(spec.name);
    const Tensor a = spec.bias ? Tensor() : tensors.read(module + ".lora_A.weight");
    const Tensor b = spec.bias ? Tensor() : tensors.read(module + ".lora_B.weight");
    if (a.defined() || b.defined()) {
      check_parts(weight, a, b, config.transposed_linear, module, origin);
      weight = add_lora(weight.to(at::kFloat), a, b, file.config.scale, config.transposed_linear)
                   .to(options.dtype);
    }
    parameters.emplace_back(spec.name, weight);
  }
  tensors.check_nothing_left();
  Transformer adapted(std::move(config), std::move(parameters));
  if (options.trainable) adapted.require_grad(true);
  return adapted;
}

}  // namespace openwork
