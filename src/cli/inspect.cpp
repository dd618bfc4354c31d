// openwork inspect: what a model or any weights file holds, without touching its weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/error.h"
#include "cli/common.h"
#include "cli/program.h"
#include "cli/verbs.h"
#include "io/model_store.h"
#include "report/model_description.h"

namespace openwork {
namespace {

struct InspectOptions {
  CommonOptions common;
  std::string model, export_file;
  bool tensors = false;
};

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
  for (const auto& [name, count] : numbers_by_dtype)
    dtypes += fmt::format("{}{} {}", dtypes.empty() ? "" : ", ", count, name);
  for (const auto& [key, value] : config.items())
    print(key, value.is_string() ? value.get<std::string>() : value.dump());
  print("tensors", fmt::format("{}", file.entries().size()));
  print("numbers", fmt::format("{} ({})", total, dtypes));
  print("bytes", fmt::format("{} ({:.1f} MB)", bytes, static_cast<double>(bytes) / 1e6));
}

void print_tensors(const InspectOptions& options, const TensorFile& file) {
  size_t widest = 0;
  for (const TensorEntry& entry : file.entries()) widest = std::max(widest, entry.name.size());
  for (const TensorEntry& entry : file.entries()) {
    print_result(options.common, fmt::format("{:<{}}  {:<5} [{}]", printable(entry.name), widest,
                                             dtype_name(entry.dtype), fmt::join(entry.shape, ", ")));
  }
}

void run_inspect(const InspectOptions& options) {
  apply_common_options(options.common);
  const LocatedModel located = locate_model(options.model);
  const nlohmann::json config = describe_model(located);
  const std::shared_ptr<const TensorFile> file = open_weights(located.path);
  print_summary(options, config.is_null() ? nlohmann::json::object() : config, *file);
  if (options.tensors) print_tensors(options, *file);
  if (!options.export_file.empty()) {
    export_tensors(file, options.export_file);
    print_written(options.common, options.export_file);
  }

  if (options.common.json.empty()) return;
  nlohmann::json result = {
      {"name", options.model}, {"config", config}, {"metadata", describe_metadata(*file)}};
  if (options.tensors) result["tensors"] = describe_tensors(*file);
  result["protocol"] = make_protocol(options.common);
  result["protocol"]["model"] = describe_model_files(options.model);
  write_json_result(options.common, result);
}

}  // namespace

void add_inspect_verb(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* verb = add_verb(app, "inspect");
  verb->add_option("MODEL", options->model, "a model, or any safetensors, GGUF, .pth or .bin file")
      ->required();
  verb->add_flag("--tensors", options->tensors, "list every tensor");
  verb->add_option("--export", options->export_file,
                   "write all tensors as F32, dequantised, to this safetensors file")
      ->type_name("FILE");
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork inspect openwork-8m --tensors\n"
      "  openwork inspect model.gguf --export model.safetensors");
  verb->callback([options] { run_inspect(*options); });
}

}  // namespace openwork
