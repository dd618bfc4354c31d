// openwork scatter: head against head over all causal pairs of a prompt, as a figure.
#include <fmt/format.h>

#include <algorithm>

#include "base/correlation.h"
#include "analyze/heads/patterns.h"
#include "base/error.h"
#include "base/parallel.h"
#include "cli/figure_options.h"
#include "cli/head_selection.h"
#include "cli/open.h"
#include "cli/verbs.h"
#include "draw/scatter_matrix.h"

namespace openwork {
namespace {

constexpr size_t kDefaultHeads = 6, kMostHeads = 24;

struct ScatterOptions {
  CommonOptions common;
  FigureOptions figure;
  std::string heads;
};

// One model's chosen heads: their values at every causal pair, and how alike they are.
struct ModelScatter {
  std::string name;
  bool gated = false;
  int64_t tokens = 0, prompts = 0;
  std::vector<HeadPlace> places;
  std::vector<std::vector<float>> values;              // [head][pair]
  std::vector<std::vector<double>> pearson, spearman;  // [head][head]
};

// The heads that look most sharply at some token behind the first: those a reader would ask about.
std::vector<HeadPlace> find_sharpest(const Transformer& model, const at::Tensor& ids) {
  const auto heads = static_cast<size_t>(model.config().heads);
  std::vector<std::pair<double, HeadPlace>> found(static_cast<size_t>(model.config().layers) * heads);
  visit_patterns(model, ids, [&](const PatternView& pattern) {
    const size_t index =
        static_cast<size_t>(pattern.place.layer) * heads + static_cast<size_t>(pattern.place.head);
    found[index] = {summarise_pattern(pattern, 0).peak, pattern.place};
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  found.resize(std::min(found.size(), kDefaultHeads));
  std::vector<HeadPlace> places;
  for (const auto& [peak, place] : found) places.push_back(place);
  std::sort(places.begin(), places.end());
  return places;
}

void correlate_heads(ModelScatter& scatter) {
  const size_t count = scatter.places.size();
  scatter.pearson.assign(count, std::vector<double>(count, 1));
  scatter.spearman = scatter.pearson;
  parallel_for(count * count, [&](size_t n) {
    const size_t a = n / count, b = n % count;
    if (a >= b) return;
    scatter.pearson[a][b] = scatter.pearson[b][a] = pearson_correlation(scatter.values[a], scatter.values[b]);
    scatter.spearman[a][b] = scatter.spearman[b][a] =
        spearman_correlation(scatter.values[a], scatter.values[b]);
  });
}

ModelScatter look_at_model(const ScatterOptions& options, const GivenPrompts& given, const std::string& name,
                           std::vector<HeadPlace>& places, std::string& device, std::string& subtitle) {
  const Transformer model = open_model(name, options.common);
  device = model.device().str();
  const Prompts prompts = open_prompts(given, name, model.config(), options.common);
  const at::Tensor ids = batch_of(prompts, model.device());
  if (subtitle.empty()) subtitle = describe_prompts(given, prompts);
  if (!options.heads.empty()) places = parse_head_names(options.heads, model.config(), "--heads");
  if (places.empty()) places = find_sharpest(model, ids);
  if (places.size() < 2) fail_input("one head", "--heads", "name at least two, like L0H1,L5H5");
  if (places.size() > kMostHeads)
    fail_input(fmt::format("{} heads", places.size()), "--heads", fmt::format("name at most {}", kMostHeads));
  ModelScatter scatter{name, model.config().gate != GateKind::kNone, ids.size(1), ids.size(0), places, {}, {},
                       {}};
  for (const HeadPlace& place : places) {
    if (place.layer >= model.config().layers || place.head >= model.config().heads) {
      fail_input(fmt::format("no head {}", place.name()), name,
                 "compare models of one shape, or name heads both have");
    }
  }
  scatter.values.resize(places.size());
  visit_patterns(model, ids, [&](const PatternView& pattern) {
    const auto it = std::find(places.begin(), places.end(), pattern.place);
    if (it != places.end()) scatter.values[static_cast<size_t>(it - places.begin())] = causal_values(pattern);
  });
  correlate_heads(scatter);
  return scatter;
}

draw::ScatterMatrix make_matrix(const std::vector<ModelScatter>& models, const std::string& subtitle) {
  draw::ScatterMatrix matrix;
  matrix.caption.title = "Head against head";
  matrix.caption.subtitle = subtitle;
  for (const ModelScatter& model : models) {
    draw::ScatterBlock block{short_name(model.name) + (model.gated ? " (gated)" : ""),
                             {},
                             model.values,
                             model.pearson,
                             model.spearman,
                             model.gated ? draw::kSparse : draw::kDense};
    for (const HeadPlace& place : model.places) block.names.push_back(place.name());
    matrix.blocks.push_back(std::move(block));
  }
  return matrix;
}

nlohmann::json to_json(const ModelScatter& model) {
  nlohmann::json names = nlohmann::json::array();
  for (const HeadPlace& place : model.places) names.push_back(place.name());
  return {{"name", model.name},       {"gated", model.gated},      {"heads", names},
          {"tokens", model.tokens},   {"prompts", model.prompts},  {"pairs", model.values.front().size()},
          {"pearson", model.pearson}, {"spearman", model.spearman}};
}

void print_model(const ScatterOptions& options, const ModelScatter& model) {
  print_result(options.common, fmt::format("{}: {} causal pairs", model.name, model.values.front().size()));
  for (size_t a = 0; a < model.places.size(); ++a) {
    for (size_t b = a + 1; b < model.places.size(); ++b) {
      print_result(options.common,
                   fmt::format("  {:<7} {:<7} Pearson {:+.3f}  Spearman {:+.3f}", model.places[a].name(),
                               model.places[b].name(), model.pearson[a][b], model.spearman[a][b]));
    }
  }
}

void run_scatter(ScatterOptions& options) {
  apply_common_options(options.common);
  check_figure_output(options.figure);
  std::vector<std::string> names = options.figure.words;
  const GivenPrompts given = take_prompts(names, options.figure.source);
  check_models(names);
  std::vector<ModelScatter> models(names.size());
  std::vector<HeadPlace> places;
  std::string device, subtitle;
  nlohmann::json files = nlohmann::json::array(), list = nlohmann::json::array();
  // The last model, the sparse one of a pair, chooses the heads where none are named; all show the same.
  for (size_t n = names.size(); n-- > 0;)
    models[n] = look_at_model(options, given, names[n], places, device, subtitle);
  for (const std::string& name : names) files.push_back(describe_model_files(name));
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"models", files},
                   {"prompt", given.description},
                   {"device", device},
                   {"gates", "hard"},
                   {"pairs", "all causal pairs, the diagonal too"}});
  draw::ScatterMatrix matrix = make_matrix(models, subtitle);
  matrix.caption.note =
      "Attention weights at all causal pairs of tokens, the mean over prompts. In the upper half: Pearson's "
      "correlation, and Spearman's (ρ). "
      "Histograms count pairs, logarithmically. " +
      describe_protocol(protocol);
  draw::write_figure(draw::draw_scatter_matrix(matrix), options.figure.out, options.figure.dpi);
  for (const ModelScatter& model : models) {
    print_model(options, model);
    list.push_back(to_json(model));
  }
  print_result(options.common, "wrote " + options.figure.out);
  write_json_result(options.common,
                    {{"models", list}, {"figure", options.figure.out}, {"protocol", protocol}});
}

}  // namespace

void add_scatter_verb(CLI::App& app) {
  auto options = std::make_shared<ScatterOptions>();
  CLI::App* verb =
      app.add_subcommand("scatter", "head-against-head scatter matrix over all causal pairs, as a figure");
  add_figure_options(*verb, options->figure, "scatter.svg");
  verb->add_option("--heads", options->heads, "2 to 24 heads (default: the last model's six sharpest)")
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
