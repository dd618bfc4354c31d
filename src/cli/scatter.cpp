// openwork scatter: head against head over all causal pairs of a prompt, as a figure.
#include <fmt/format.h>

#include "analyze/heads/head_scatter.h"
#include "analyze/heads/head_selection.h"
#include "base/error.h"
#include "cli/verbs.h"
#include "report/captions.h"
#include "report/scatter_figure.h"
#include "shell/figure_options.h"
#include "shell/open.h"

namespace openwork {
namespace {

constexpr size_t kMostHeads = 24;

struct ScatterOptions {
  CommonOptions common;
  FigureOptions figure;
  std::string heads;
};

// Two heads or more, and all of them the model's.
void check_places(const std::vector<HeadPlace>& places, const std::string& name, const ModelConfig& config) {
  if (places.size() < 2) fail_input("one head", "--heads", "name at least two, like L0H1,L5H5");
  if (places.size() > kMostHeads)
    fail_input(fmt::format("{} heads", places.size()), "--heads", fmt::format("name at most {}", kMostHeads));
  for (const HeadPlace& place : places) {
    if (place.layer < config.layers && place.head < config.heads) continue;
    fail_input(fmt::format("no head {}", place.name()), name,
               "compare models of one shape, or name heads both have");
  }
}

HeadScatter look_at_model(const ScatterOptions& options, const GivenPrompts& given, const std::string& name,
                          std::vector<HeadPlace>& places, std::string& device, std::string& subtitle) {
  const Transformer model = open_model(name, options.common);
  device = model.device().str();
  const TokenPrompts prompts = tokenise_prompts(given, name, model.config(), options.common);
  const at::Tensor ids = batch_of(prompts, model.device());
  if (subtitle.empty())
    subtitle = describe_prompts(given.texts, prompts.ids.size(), prompts.ids.front().size());
  if (!options.heads.empty()) places = parse_head_names(options.heads, model.config(), "--heads");
  if (places.empty()) places = find_sharpest(model, ids);
  check_places(places, name, model.config());
  check_scatter(places.size(), ids.size(1));
  HeadScatter scatter = scatter_heads(model, ids, places);
  scatter.name = name;
  return scatter;
}

void run_scatter(ScatterOptions& options) {
  apply_common_options(options.common);
  check_figure_output(options.figure);
  std::vector<std::string> names = options.figure.words;
  const GivenPrompts given = take_prompts(names, options.figure.source);
  check_models(names, options.figure.source.option());
  if (!options.heads.empty())
    for (const std::string& name : names) parse_head_names(options.heads, read_config_of(name), "--heads");
  std::vector<HeadScatter> models(names.size());
  std::vector<HeadPlace> places;
  std::string device, subtitle;
  nlohmann::json list = nlohmann::json::array();
  // The last model, the sparse one of a pair, chooses the heads where none are named; all show the same.
  for (size_t n = names.size(); n-- > 0;)
    models[n] = look_at_model(options, given, names[n], places, device, subtitle);
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"models", describe_models(names)},
                   {"prompt", given.description},
                   {"device", device},
                   {"gates", "hard"},
                   {"pairs", "all causal pairs, the diagonal too"}});
  const draw::ScatterMatrix matrix = make_scatter_matrix(models, subtitle, describe_protocol(protocol));
  draw::write_figure(draw::draw_scatter_matrix(matrix), options.figure.out, options.figure.dpi);
  for (const HeadScatter& model : models) {
    print_results(options.common, format_scatter(model));
    list.push_back(to_json(model));
  }
  print_written(options.common, options.figure.out);
  write_json_result(options.common,
                    {{"models", list}, {"figure", options.figure.out}, {"protocol", protocol}});
}

}  // namespace

void add_scatter_verb(CLI::App& app) {
  auto options = std::make_shared<ScatterOptions>();
  CLI::App* verb = add_verb(app, "scatter");
  add_figure_options(*verb, options->figure, "scatter.svg");
  verb->add_option("--heads", options->heads, "2 to 24 heads (default: the last model's six sharpest)")
      ->check(names_something())
      ->type_name("L0H1,L5H5,...");
  add_common_options(*verb, options->common);
  verb->footer(
      "Below the diagonal one point per causal pair of tokens, shaded by density beyond 10,000; histograms "
      "on it;\n"
      "Pearson's and Spearman's correlations above it. Models stand one above the other.\n"
      "Examples:\n"
      "  openwork scatter openwork-8m \"When Mary and John went to the store\" --heads L5H6,L6H0,L6H3 --out "
      "scatter.svg\n"
      "  openwork scatter dense/ sparse/ \"Once upon a time\" --out scatter.png --json scatter.json");
  verb->callback([options] { run_scatter(*options); });
}

}  // namespace openwork
