// openwork heads: the heads of one or more models side by side, as a figure.
#include <fmt/format.h>

#include "base/error.h"
#include "base/progress.h"
#include "cli/collect_heads.h"
#include "cli/figure_options.h"
#include "cli/head_selection.h"
#include "cli/verbs.h"

namespace openwork {
namespace {

struct HeadsOptions {
  CommonOptions common;
  FigureOptions figure;
  std::string preset, order, layers, heads, blank = "leave-out", shade = "sqrt", scale = "shared";
  int64_t top = 0, columns = 0, from = -1, to = -1, frames = -1;
  double scale_high = 0;
};

constexpr int64_t kSampledHeads = 512;  // beyond so many heads the sample preset takes 16 x 16
constexpr int64_t kPromptFrames = 12;   // cells the prompt preset frames in each model

// Everything the figure and the JSON say about one model.
struct ModelHeads {
  std::string name;
  int64_t heads = 0, tokens = 0, prompts = 0;
  bool gated = false;
  int columns = 0;
  std::vector<std::string> marks;
  CollectedHeads collected;
};

bool is_large(const ModelConfig& config) {
  return config.layers * config.heads > kSampledHeads;
}

// The sample preset shows a large dense model's even layers and first 16 heads, and all of what a sparse one
// retained.
std::vector<HeadPlace> choose_heads(const HeadsOptions& options, const ModelConfig& config) {
  const bool sampled = options.preset == "sample" && is_large(config) && config.gate == GateKind::kNone;
  const std::string layers = options.layers.empty() && sampled ? "even" : options.layers;
  const std::string most = fmt::format("0-{}", std::min<int64_t>(config.heads, 16) - 1);
  return select_heads(layers, options.heads.empty() && sampled ? most : options.heads, config);
}

int choose_block_columns(const HeadsOptions& options, const ModelConfig& config) {
  if (options.columns > 0) return static_cast<int>(options.columns);
  if (options.preset == "sample" && is_large(config)) return 16;
  const std::vector<HeadPlace> heads = choose_heads(options, config);
  std::vector<int64_t> layers;
  for (const HeadPlace& place : heads) {
    if (layers.empty() || layers.back() != place.layer) layers.push_back(place.layer);
  }
  const auto count = static_cast<int64_t>(heads.size()), rows = static_cast<int64_t>(layers.size());
  return draw::choose_columns(rows, rows > 0 ? std::max<int64_t>(1, count / rows) : 1);
}

std::optional<draw::TokenPair> watched_cell(const HeadsOptions& options, int64_t tokens) {
  if (options.from < 0 && options.to < 0) return std::nullopt;
  if (options.from < 0 || options.to < 0) fail_input("one end of an edge", "--from, --to", "give both");
  if (options.from > options.to || options.to >= tokens) {
    fail_input(fmt::format("no edge from key {} to query {}", options.from, options.to), "--from, --to",
               fmt::format("keys come before queries, and positions are 0 to {}", tokens - 1));
  }
  return draw::TokenPair{options.to, options.from};
}

size_t count_frames(const HeadsOptions& options) {
  if (options.frames >= 0) return static_cast<size_t>(options.frames);
  return options.preset == "prompt" || options.from >= 0 ? static_cast<size_t>(kPromptFrames) : 0;
}

HeadRequest make_request(const HeadsOptions& options, const ModelConfig& config, int64_t tokens,
                         int64_t models) {
  HeadRequest request;
  request.heads = choose_heads(options, config);
  request.order = options.order == "importance" ? HeadOrder::kImportance : HeadOrder::kGiven;
  request.show_blank = options.blank == "show";
  request.top = options.top;
  request.watched = watched_cell(options, tokens);
  request.frames = count_frames(options);
  request.cells = draw::choose_cells(tokens, static_cast<int64_t>(request.heads.size()) * models);
  return request;
}

ModelHeads look_at_model(const HeadsOptions& options, const GivenPrompts& given, const std::string& name,
                         int64_t models, std::string& device, std::string& subtitle) {
  const Transformer model = open_model(name, options.common);
  const ModelConfig& config = model.config();
  device = model.device().str();
  const Prompts prompts = open_prompts(given, name, config, options.common);
  const at::Tensor ids = batch_of(prompts, model.device());
  ModelHeads result{name,
                    config.layers * config.heads,
                    ids.size(1),
                    ids.size(0),
                    config.gate != GateKind::kNone,
                    choose_block_columns(options, config),
                    mark_tokens(prompts),
                    {}};
  if (subtitle.empty()) subtitle = describe_prompts(given, prompts);
  note(fmt::format("heads of {} on {} token{}", name, result.tokens, result.tokens == 1 ? "" : "s"));
  result.collected = collect_heads(model, ids, make_request(options, config, result.tokens, models));
  return result;
}

std::string describe_block(const ModelHeads& model, bool show_blank) {
  const size_t shown = model.collected.shown.size(), blank = model.collected.blank.size();
  std::string text = fmt::format("{} of {} heads", shown, model.heads);
  if (blank > 0)
    text += show_blank ? fmt::format(", {} of them blank", blank)
                       : fmt::format("; {} blank ones left out", blank);
  else
    text += "; none blank";
  const size_t hidden = static_cast<size_t>(model.collected.looked_at) - (show_blank ? 0 : blank) - shown;
  if (hidden > 0) text += fmt::format("; {} more not shown", hidden);
  const int64_t cells = shown > 0 ? model.collected.shown.front().cells.side : 0;
  if (cells > 0 && cells < model.tokens)
    text += fmt::format("; {} tokens averaged into {} cells", model.tokens, cells);
  return text;
}

draw::HeadGrid make_grid(const HeadsOptions& options, const std::vector<ModelHeads>& models,
                         const std::string& subtitle) {
  draw::HeadGrid grid;
  grid.caption.title = "Attention heads";
  grid.caption.subtitle = subtitle;
  grid.shade = options.shade == "linear" ? draw::Shade::kLinear : draw::Shade::kSquareRoot;
  grid.shared_scale = options.scale == "shared";
  if (options.scale_high > 0) grid.scale_high = options.scale_high;
  for (const ModelHeads& model : models) {
    draw::HeadBlock block{short_name(model.name) + (model.gated ? " (gated)" : ""),
                          describe_block(model, options.blank == "show"),
                          model.columns,
                          {},
                          model.marks};
    for (const CollectedHead& head : model.collected.shown)
      block.panels.push_back({head.place.name(), head.cells, head.frames});
    grid.blocks.push_back(std::move(block));
  }
  if (count_frames(options) > 0) {
    grid.frame_name = options.from >= 0
                          ? fmt::format("key {} to query {}, in the {} heads where it is strongest",
                                        options.from, options.to, count_frames(options))
                          : fmt::format(
                                "the {} strongest moves between tokens of each model (the first key and the "
                                "token itself aside)",
                                count_frames(options));
  }
  return grid;
}

nlohmann::json to_json(const ModelHeads& model) {
  nlohmann::json shown = nlohmann::json::array(), blank = nlohmann::json::array();
  for (const CollectedHead& head : model.collected.shown) {
    nlohmann::json frames = nlohmann::json::array();
    for (const draw::TokenPair& pair : head.frames)
      frames.push_back(fmt::format("{}:{}<-{}", head.place.name(), pair.query, pair.key));
    shown.push_back({{"head", head.place.name()},
                     {"mass", head.summary.mass},
                     {"peak", head.summary.peak},
                     {"strength", head.strength},
                     {"blank", head.summary.blank()},
                     {"frames", frames}});
  }
  for (const HeadPlace& place : model.collected.blank) blank.push_back(place.name());
  const int64_t cells = model.collected.shown.empty() ? 0 : model.collected.shown.front().cells.side;
  return {{"name", model.name},       {"gated", model.gated},
          {"heads", model.heads},     {"looked_at", model.collected.looked_at},
          {"shown", shown},           {"blank", blank},
          {"columns", model.columns}, {"tokens", model.tokens},
          {"prompts", model.prompts}, {"cells", cells}};
}

void run_heads(HeadsOptions& options) {
  apply_common_options(options.common);
  check_figure_output(options.figure);
  std::vector<std::string> names = options.figure.words;
  const GivenPrompts given = take_prompts(names, options.figure.source);
  if (options.order.empty()) options.order = options.preset == "task" ? "importance" : "layer";
  std::vector<ModelHeads> models;
  std::string device, subtitle;
  nlohmann::json files = nlohmann::json::array(), list = nlohmann::json::array();
  for (const std::string& name : names) {
    models.push_back(
        look_at_model(options, given, name, static_cast<int64_t>(names.size()), device, subtitle));
    files.push_back(describe_model_files(name));
  }
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"models", files},
                   {"prompt", given.description},
                   {"device", device},
                   {"gates", "hard"},
                   {"preset", options.preset},
                   {"order", options.order},
                   {"blank", "mean row sum below 0.01"}});
  draw::HeadGrid grid = make_grid(options, models, subtitle);
  grid.caption.note = "Queries downwards, keys to the right. " + describe_protocol(protocol);
  draw::write_figure(draw::draw_head_grid(grid), options.figure.out, options.figure.dpi);
  for (const ModelHeads& model : models) {
    print_result(options.common,
                 fmt::format("{}: {}", model.name, describe_block(model, options.blank == "show")));
    list.push_back(to_json(model));
  }
  print_result(options.common, "wrote " + options.figure.out);
  const draw::ColourScale scale = draw::shared_scale(grid);
  write_json_result(
      options.common,
      {{"models", list},
       {"scale", {{"shared", grid.shared_scale}, {"low", 0}, {"high", scale.high}, {"shade", options.shade}}},
       {"figure", options.figure.out},
       {"protocol", protocol}});
}

}  // namespace

void add_heads_verb(CLI::App& app) {
  auto options = std::make_shared<HeadsOptions>();
  CLI::App* verb = app.add_subcommand("heads", "the heads of one or more models side by side, as a figure");
  add_figure_options(*verb, options->figure, "heads.svg");
  verb->add_option("--preset", options->preset,
                   "sample (even layers, heads 0-15 of a large model) or prompt (strongest cells framed)")
      ->check(CLI::IsMember({"sample", "prompt"}))
      ->type_name("NAME");
  verb->add_option("--order", options->order, "layer, or importance: largest first")
      ->check(CLI::IsMember({"importance", "layer"}))
      ->type_name("ORDER");
  verb->add_option("--layers", options->layers, "even, odd, 0-7 or 0,2,5 (default: all)")->type_name("LIST");
  verb->add_option("--heads", options->heads, "0-15 in each layer, or L0H1,L5H5")->type_name("LIST");
  verb->add_option("--top", options->top, "at most N heads of each model, the first in order")
      ->type_name("N")
      ->check(between(1, 1 << 20));
  verb->add_option("--columns", options->columns, "heads in a row")->type_name("N")->check(between(1, 256));
  verb->add_option("--frames", options->frames, "frame the N strongest moves between tokens in red")
      ->type_name("N")
      ->check(between(0, 10000));
  verb->add_option("--from", options->from, "with --to: frame this key position instead")
      ->type_name("POS")
      ->check(between(0, 1 << 24));
  verb->add_option("--to", options->to, "and this query position")
      ->type_name("POS")
      ->check(between(0, 1 << 24));
  verb->add_option("--blank", options->blank, "leave-out or show heads that attend to nothing")
      ->check(CLI::IsMember({"leave-out", "show"}))
      ->capture_default_str();
  verb->add_option("--scale", options->scale, "shared by all heads, or one for each head")
      ->check(CLI::IsMember({"shared", "head"}))
      ->capture_default_str();
  verb->add_option("--scale-high", options->scale_high,
                   "value of the darkest blue (default: the largest cell)")
      ->type_name("X")
      ->check(between(1e-6, 1.0));
  verb->add_option("--shade", options->shade, "sqrt shows weak attention, linear is even")
      ->check(CLI::IsMember({"sqrt", "linear"}))
      ->capture_default_str();
  add_common_options(*verb, options->common);
  verb->footer(
      "A head whose rows sum to less than 0.01 on average is blank: left out and counted, or shown empty. "
      "Prompts\n"
      "longer than a panel has cells are averaged into cells. Without a task, importance is the strongest "
      "move\n"
      "between tokens (or the value at --from, --to).\n"
      "Examples:\n"
      "  openwork heads openwork-8m openwork-8m-sparse \"When Mary and John went to the store\" --out "
      "heads.svg\n"
      "  openwork heads dense/ sparse/ \"The opposite of 'large' is '\" --preset prompt --order importance "
      "--top 16 --out prompt.pdf\n"
      "  openwork heads openwork-8m \"a b c a b\" --layers 4-6 --out heads.png --dpi 300");
  verb->callback([options] { run_heads(*options); });
}

}  // namespace openwork
