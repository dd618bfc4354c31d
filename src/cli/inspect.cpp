// openwork inspect: what a model or any weights file holds, without touching its weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "cli/common.h"
#include "cli/verbs.h"
#include "io/model_store.h"
#include "io/safetensors.h"
#include "model/architecture.h"
#include "model/gate_summary.h"
#include "model/load.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

struct InspectOptions {
  CommonOptions common;
  std::string model, export_file;
  bool tensors = false;
};

nlohmann::json describe_config(const ModelConfig& config) {
  return {{"architecture", config.architecture},
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

// A model's configuration, or why there is none: any weights file may be inspected.
nlohmann::json try_describe(const LocatedModel& located) {
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
    list.push_back({{"name", entry.name}, {"dtype", dtype_name(entry.dtype)}, {"shape", entry.shape},
                    {"bytes", entry.bytes.size()}});
  }
  return list;
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

void print_summary(const InspectOptions& options, const nlohmann::json& config, const TensorFile& file) {
  const auto print = [&](std::string_view key, const std::string& value) {
    print_result(options.common, fmt::format("{:<14}{}", key, value));
  };
  std::map<std::string, int64_t> numbers_by_dtype;
  int64_t total = 0;
  uint64_t bytes = 0;
  for (const TensorEntry& entry : file.entries()) {
    numbers_by_dtype[std::string(dtype_name(entry.dtype))] += entry.element_count();
    total += entry.element_count();
    bytes += entry.bytes.size();
  }
  std::string dtypes;
  for (const auto& [name, count] : numbers_by_dtype) dtypes += fmt::format("{}{} {}", dtypes.empty() ? "" : ", ", count, name);
  for (const auto& [key, value] : config.items()) print(key, value.is_string() ? value.get<std::string>() : value.dump());
  print("tensors", fmt::format("{}", file.entries().size()));
  print("numbers", fmt::format("{} ({})", total, dtypes));
  print("bytes", fmt::format("{} ({:.1f} MB)", bytes, static_cast<double>(bytes) / 1e6));
}

void print_tensors(const InspectOptions& options, const TensorFile& file) {
  size_t widest = 0;
  for (const TensorEntry& entry : file.entries()) widest = std::max(widest, entry.name.size());
  for (const TensorEntry& entry : file.entries()) {
    print_result(options.common, fmt::format("{:<{}}  {:<5} [{}]", printable(entry.name), widest, dtype_name(entry.dtype),
                                             fmt::join(entry.shape, ", ")));
  }
}

void run_inspect(const InspectOptions& options) {
  apply_common_options(options.common);
  const LocatedModel located = locate_model(options.model);
  const nlohmann::json config = try_describe(located);
  const std::shared_ptr<const TensorFile> file = open_weights(located.path);
  print_summary(options, config.is_null() ? nlohmann::json::object() : config, *file);
  if (options.tensors) print_tensors(options, *file);
  if (!options.export_file.empty()) export_tensors(file, options.export_file);

  if (options.common.json.empty()) return;
  nlohmann::json result = {{"name", options.model}, {"config", config}, {"metadata", nlohmann::json::object()}};
  for (const auto& [key, value] : file->metadata().items()) {
    if (!value.is_array()) result["metadata"][key] = value;  // vocabularies and the like stay in the file
  }
  if (options.tensors) result["tensors"] = describe_tensors(*file);
  result["protocol"] = {{"model", describe_model_files(options.model)}};
  write_json_result(options.common, result);
}

}  // namespace

void add_inspect_verb(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* verb = app.add_subcommand("inspect", "architecture, sizes, heads, gates and tensors of a model or weights file");
  verb->add_option("MODEL", options->model, "a model, or any safetensors, GGUF, .pth or .bin file")->required();
  verb->add_flag("--tensors", options->tensors, "list every tensor");
  verb->add_option("--export", options->export_file, "write all tensors as F32, dequantised, to this safetensors file")
      ->type_name("FILE");
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork inspect openwork-8m --tensors\n"
      "  openwork inspect model.gguf --export model.safetensors");
  verb->callback([options] { run_inspect(*options); });
}

}  // namespace openwork
