#include "report/model_description.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "io/safetensors.h"
#include "model/architecture.h"
#include "model/gate_summary.h"
#include "model/load.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

nlohmann::json describe_config(const ModelConfig& config) {
  nlohmann::json json = {
      {"architecture", config.architecture},
      {"layers", config.layers},
      {"heads", config.heads},
      {"kv_heads", config.kv_heads},
      {"head_size", config.head_size},
      {"width", config.width},
      {"inner", config.inner},
      {"vocabulary", config.vocabulary},
      {"context", config.context},
      {"positions",
       config.positions == Positions::kLearned ? "learned" : "rotary (" + config.rope.kind + ")"},
      {"tied", config.tied}};
  if (!config.kept_heads.empty()) json["kept_heads"] = config.kept_heads;
  return json;
}

// JSON has no infinities: an idle score that is one is written as text.
nlohmann::json describe_range(const GateRange& range) {
  const auto number = [](float x) {
    return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(fmt::format("{}", x));
  };
  return {number(range.low), number(range.high)};
}

void describe_gates(const LocatedModel& located, nlohmann::json& config) {
  const GateSummary gates = summarise_gates(located.path, located.adapter);
  config["gate"] = gate_name(gates.kind);
  if (gates.bias) config["gate_bias"] = describe_range(*gates.bias);
  if (gates.idle) config["gate_idle"] = describe_range(*gates.idle);
}

}  // namespace

nlohmann::json describe_model(const LocatedModel& located) {
  const fs::path& path = located.path;
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  const bool has_config = fs::exists(folder / "config.json") || !fs::is_directory(path);
  if (!has_config) return nullptr;
  try {
    nlohmann::json config = describe_config(load_config(path));
    describe_gates(located, config);
    return config;
  } catch (const Error& error) {
    if (fs::is_directory(path)) throw;
    return {{"note", error.what()}};
  }
}

nlohmann::json describe_tensors(const TensorFile& file) {
  nlohmann::json list = nlohmann::json::array();
  for (const TensorEntry& entry : file.entries()) {
    list.push_back({{"name", entry.name},
                    {"dtype", dtype_name(entry.dtype)},
                    {"shape", entry.shape},
                    {"bytes", entry.bytes.size()}});
  }
  return list;
}

nlohmann::json describe_metadata(const TensorFile& file) {
  nlohmann::json metadata = nlohmann::json::object();
  for (const auto& [key, value] : file.metadata().items()) {
    if (!value.is_array()) metadata[key] = value;
  }
  return metadata;
}

void export_tensors(const std::shared_ptr<const TensorFile>& file, const std::string& path) {
  std::vector<OutputTensor> outputs;
  for (const TensorEntry& entry : file->entries()) {
    const auto produce = [file, &entry](const ByteSink& sink) {
      std::vector<float> values(static_cast<size_t>(entry.element_count()));
      read_f32(entry, values);
      sink(bytes_of(values));
      file->release(entry);
    };
    outputs.push_back({.name = entry.name, .dtype = DType::kF32, .shape = entry.shape, .produce = produce});
  }
  write_safetensors(path, std::move(outputs), {{"format", "pt"}});
}

}  // namespace openwork
