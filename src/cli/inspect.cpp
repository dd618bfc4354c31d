// openwork inspect: what a model or any weights file holds, without touching its weights.
#include "cli/verbs.h"
#include "io/model_store.h"
#include "report/model_description.h"
#include "report/model_text.h"
#include "shell/common.h"

namespace openwork {
namespace {

struct InspectOptions {
  CommonOptions common;
  std::string model, export_file;
  bool tensors = false;
};

void run_inspect(const InspectOptions& options) {
  apply_common_options(options.common);
  const LocatedModel located = locate_model(options.model);
  const nlohmann::json config = describe_model(located);
  const std::shared_ptr<const TensorFile> file = open_weights(located.path);
  print_results(options.common, format_model(config.is_null() ? nlohmann::json::object() : config, *file));
  if (options.tensors) print_results(options.common, format_tensors(*file));
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
