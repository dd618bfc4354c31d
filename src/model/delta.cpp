#include "model/delta.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/model_store.h"
#include "io/safe_files.h"
#include "model/architecture.h"
#include "model/packed_codes.h"
#include "model/save.h"
#include "model/weights.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr double kFileOverhead = 120;  // bytes of the header per tensor, about

std::vector<ParameterSpec> specs_of(const ModelConfig& config) {
  return list_parameters(architecture_named(config.architecture, "model"), config);
}

// In which turn a matrix gets its bits; -1: it is stored whole.
int turn_of(const ParameterSpec& spec) {
  if (spec.bias || spec.shape.size() != 2) return -1;
  switch (spec.role) {
    case Role::kQkv:
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kAttentionOutput:
      return 0;
    case Role::kUp:
    case Role::kGate:
    case Role::kDown:
      return 1;
    default:
      return 2;
  }
}

double stored_bytes(const ParameterSpec& spec, int bits) {
  const double rows = static_cast<double>(spec.shape[0]), columns = static_cast<double>(spec.shape[1]);
  return bits == 0 ? 0 : rows * (std::ceil(columns * bits / 8) + 2) + 2 * kFileOverhead;
}

Tensor levels_of(const Tensor& codes, int bits) {
  return codes.to(at::kFloat) - 0.5 * static_cast<double>((1 << bits) - 1);
}

Tensor find_codes(const Tensor& change, const Tensor& scale, int bits) {
  const double half = static_cast<double>(1 << (bits - 1));
  return (change / scale + half).floor().clamp(0, 2 * half - 1);
}

class DeltaReader {
 public:
  explicit DeltaReader(const fs::path& folder)
      : file_(open_weights(folder / kDeltaFile)), reader_(file_, at::kFloat, /*copies=*/true) {}

  Tensor read_whole(const ParameterSpec& spec) {
    used_.insert(spec.name);
    Tensor tensor = is_gate(spec.role) ? reader_.read_gate(spec.name, spec.role == Role::kGateIdle)
                                       : reader_.read(spec.name);
    if (!tensor.sizes().equals(spec.shape)) refuse(spec.name);
    return tensor;
  }

  Tensor read_change(const ParameterSpec& spec, int bits) {
    const std::string codes_name = spec.name + ".codes", scales_name = spec.name + ".scales";
    used_.insert(codes_name), used_.insert(scales_name);
    const TensorEntry& entry = file_->at(codes_name);
    const int64_t rows = spec.shape.at(0), columns = spec.shape.at(1), bytes = packed_bytes(columns, bits);
    if (entry.dtype != DType::kU8 || entry.shape != std::vector<int64_t>{rows, bytes}) refuse(codes_name);
    Tensor packed = at::empty({rows, bytes}, at::kByte);
    read_bytes(entry, {static_cast<std::byte*>(packed.mutable_data_ptr()), packed.nbytes()});
    const Tensor scales = reader_.read(scales_name);
    if (!scales.sizes().equals({rows})) refuse(scales_name);
    return expand_change({unpack_codes(packed, columns, bits), scales}, bits);
  }

  void check_nothing_left() const {
    for (const TensorEntry& entry : file_->entries()) {
      if (!used_.contains(entry.name)) refuse(entry.name);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& name) const {
    fail_input(fmt::format("tensor '{}' does not fit the model", printable(name)), file_->origin(),
               "the difference and its config.json must belong together");
  }

  std::shared_ptr<const TensorFile> file_;
  WeightReader reader_;
  std::set<std::string> used_;
};

}  // namespace

DeltaPlan plan_delta(const ModelConfig& config, double megabytes) {
  const std::vector<ParameterSpec> specs = specs_of(config);
  double left = megabytes * 1e6;
  for (const ParameterSpec& spec : specs) {
    if (turn_of(spec) >= 0) continue;
    double count = 4;
    for (const int64_t size : spec.shape) count *= static_cast<double>(size);
    left -= count + kFileOverhead;
  }
  DeltaPlan plan;
  for (int bits = 1; bits <= kMostDeltaBits; ++bits) {
    for (int turn = 0; turn < 3; ++turn) {
      for (const ParameterSpec& spec : specs) {
        if (turn_of(spec) != turn) continue;
        const auto it = plan.find(spec.name);
        if ((it == plan.end() ? 0 : it->second) != bits - 1) continue;
        const double more = stored_bytes(spec, bits) - stored_bytes(spec, bits - 1);
        if (more > left) continue;
        left -= more;
        plan[spec.name] = bits;
      }
    }
  }
  for (const ParameterSpec& spec : specs) {
    if (turn_of(spec) != 0 || plan.contains(spec.name)) continue;
    fail_input(fmt::format("{} MB hold no bit for every attention weight", megabytes), "--compact",
               "allow more");
  }
  return plan;
}

RoundedChange round_change(const Tensor& change, int bits) {
  // The best step of 2^bits even levels for a normal distribution, in standard deviations; then fitted.
  constexpr std::array<double, kMostDeltaBits + 1> kSteps = {0,      1.596,  0.9957, 0.5860, 0.3352,
                                                             0.1881, 0.1041, 0.0569, 0.0308};
  constexpr double kSmallest = 6e-8;  // float16 still holds it
  Tensor scale =
      (change.square().mean(1, true).sqrt() * kSteps.at(static_cast<size_t>(bits))).clamp_min(kSmallest);
  for (int round = 0; round < 2; ++round) {
    const Tensor levels = levels_of(find_codes(change, scale, bits), bits);
    scale = ((change * levels).sum(1, true) / levels.square().sum(1, true)).clamp_min(kSmallest);
  }
  const Tensor scales = scale.to(at::kHalf);
  return {find_codes(change, scales.to(at::kFloat).clamp_min(kSmallest), bits).to(at::kByte),
          scales.squeeze(1)};
}

Tensor expand_change(const RoundedChange& rounded, int bits) {
  return levels_of(rounded.codes, bits) * rounded.scales.to(at::kFloat).unsqueeze(1);
}

void save_delta(const fs::path& folder, const ModelConfig& config, const NamedTensors& parameters,
                const DeltaBase& base, const DeltaPlan& plan) {
  const at::NoGradGuard no_grad;
  make_folder(folder);
  const std::map<std::string, Tensor> own(base.weights.begin(), base.weights.end());
  NamedTensors named;
  const std::vector<ParameterSpec> specs = specs_of(config);
  for (size_t n = 0; n < specs.size(); ++n) {
    const std::string& name = specs[n].name;
    const Tensor weight = parameters.at(n).second.detach().to(at::kFloat);
    if (turn_of(specs[n]) < 0) {
      named.emplace_back(name, weight);
    } else if (const auto it = plan.find(name); it != plan.end()) {
      const RoundedChange rounded = round_change(weight - own.at(name).to(weight), it->second);
      named.emplace_back(name + ".codes", pack_codes(rounded.codes, it->second));
      named.emplace_back(name + ".scales", rounded.scales);
    }
  }
  save_tensors(folder / kDeltaFile, named);
  nlohmann::json json = make_config(config, at::kFloat);
  json["openwork_delta"] = {
      {"version", 1}, {"base", base.name}, {"base_sha256", model_hash(base.path)}, {"bits", plan}};
  write_text_file(folder / "config.json", json.dump(2) + "\n");
}

bool is_delta(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kDeltaFile, error);
}

Transformer load_delta_model(const fs::path& base_path, const fs::path& folder, const LoadOptions& options) {
  const at::NoGradGuard no_grad;
  const std::string origin = (folder / "config.json").string();
  const nlohmann::json json = read_json_file(folder / "config.json");
  const DeltaHeader header = read_delta_header(json, origin);
  if (model_hash(base_path) != header.base_hash) {
    fail_input("the base's files are not those the difference was taken to", base_path.string(),
               "fetch the base that " + origin + " names");
  }
  const Transformer base = load_model(base_path, {at::kFloat, at::kCPU});
  ModelConfig config = base.config();
  config.gate = read_gate(ConfigReader(json, origin));
  const std::map<std::string, Tensor> own(base.parameters().begin(), base.parameters().end());
  DeltaReader reader(folder);
  NamedTensors parameters;
  for (const ParameterSpec& spec : specs_of(config)) {
    Tensor weight;
    if (turn_of(spec) < 0) {
      weight = reader.read_whole(spec);
    } else {
      const auto it = header.bits.find(spec.name);
      weight = it == header.bits.end() ? own.at(spec.name)
                                       : own.at(spec.name) + reader.read_change(spec, it->second);
    }
    const at::ScalarType dtype = is_gate(spec.role) ? at::kFloat : options.dtype;
    parameters.emplace_back(spec.name, weight.to(options.device, dtype).clone());
  }
  reader.check_nothing_left();
  Transformer model(std::move(config), std::move(parameters));
  if (options.trainable) model.require_grad(true);
  return model;
}

}  // namespace openwork
