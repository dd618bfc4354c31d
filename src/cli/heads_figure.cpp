#include "cli/heads_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/progress.h"
#include "cli/head_selection.h"

namespace openwork {
namespace {

constexpr int64_t kSampledHeads = 512;  // beyond so many heads the sample preset takes 16 x 16
constexpr int64_t kPromptFrames = 12;   // cells the prompt preset frames in each model
constexpr int64_t kFewestColumns = 4;

bool is_large(int64_t layers, int64_t heads) {
  return layers * heads > kSampledHeads;
}

// The sample preset shows a large dense model's even layers and first 16 heads, and all that a sparse one
// retained; the task preset those heads that the task needs.
std::vector<HeadPlace> choose_heads(const HeadsOptions& options, const ModelConfig& config,
                                    const std::optional<TaskHeads>& task) {
  const bool sampled =
      options.preset == "sample" && is_large(config.layers, config.heads) && config.gate == GateKind::kNone;
  const std::string layers = options.layers.empty() && sampled ? "even" : options.layers;
  const std::string most = fmt::format("0-{}", std::min<int64_t>(config.heads, 16) - 1);
  std::vector<HeadPlace> heads =
      select_heads(layers, options.heads.empty() && sampled ? most : options.heads, config);
  if (options.preset == "task") {
    const auto end = task->order.begin() + static_cast<std::ptrdiff_t>(task->needed);
    std::erase_if(heads,
                  [&](const HeadPlace& place) { return std::find(task->order.begin(), end, place) == end; });
  }
  return heads;
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

HeadRequest make_request(const HeadsOptions& options, const ModelConfig& config, const ModelHeads& model,
                         int64_t models) {
  HeadRequest request;
  request.heads = choose_heads(options, config, model.task);
  request.order = options.order == "importance" ? HeadOrder::kImportance : HeadOrder::kGiven;
  if (model.task) request.importance = model.task->importance;
  request.show_blank =
      options.blank == "show" || options.preset == "task";  // a head the task needs is never left out
  request.top = options.top;
  request.watched = watched_cell(options, model.tokens);
  request.frames = count_frames(options);
  request.cells = draw::choose_cells(model.tokens, static_cast<int64_t>(request.heads.size()) * models);
  return request;
}

// Rows of whole layers where heads stand by layer; about square where they stand by importance.
int choose_columns(const HeadsOptions& options, const std::vector<ModelHeads>& models) {
  if (options.columns > 0) return static_cast<int>(options.columns);
  int columns = 1;
  size_t most = 0;
  for (const ModelHeads& model : models) {
    if (options.preset == "sample" && is_large(model.layers, model.heads)) return 16;
    const int64_t looked_at = model.collected.looked_at,
                  layers = std::min(model.layers,
                                    std::max<int64_t>(1, looked_at / std::min(model.heads, looked_at)));
    columns = std::max(columns, draw::choose_columns(layers, std::max<int64_t>(1, looked_at / layers)));
    most = std::max(most, model.collected.shown.size());
  }
  const bool by_layer = options.order == "layer" && options.top == 0 && !options.heads.starts_with('L');
  return by_layer
             ? columns
             : static_cast<int>(std::max(
                   kFewestColumns, static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(most))))));
}

std::string describe_frames(const HeadsOptions& options) {
  const size_t frames = count_frames(options);
  if (frames == 0) return "";
  if (options.from >= 0)
    return fmt::format("key {} to query {}, in the {} heads where it is strongest", options.from, options.to,
                       frames);
  return fmt::format(
      "the {} strongest moves between tokens of each model (the first key and the token itself aside)",
      frames);
}

std::string name_task(const ModelHeads& model) {
  return model.task->description["task"].get<std::string>();
}

}  // namespace

ModelHeads look_at_heads(const HeadsOptions& options, const GivenPrompts& given, const std::string& name,
                         int64_t models) {
  const Transformer model = open_model(name, options.common);
  const ModelConfig& config = model.config();
  ModelHeads result;
  result.name = name, result.layers = config.layers, result.heads = config.heads;
  result.gated = config.gate != GateKind::kNone;
  result.device = model.device().str();
  at::Tensor ids;
  if (!options.task.empty()) {
    const TaskOptions task{
        options.task, options.figure.source.prompts.empty() ? 0 : std::stoll(options.figure.source.prompts)};
    result.task =
        options.circuit.empty()
            ? find_task_heads(name, model, task, options.ablation, options.threshold, options.common)
            : read_task_heads(options.circuit, name, model, task, options.common);
    ids = result.task->ids;
    result.subtitle = fmt::format("{} task, mean of {} clean prompts of {} tokens", name_task(result),
                                  ids.size(0), ids.size(1));
  } else {
    const Prompts prompts = open_prompts(given, name, config, options.common);
    ids = batch_of(prompts, model.device());
    result.marks = mark_tokens(prompts);
    result.subtitle = describe_prompts(given, prompts);
  }
  result.prompts = ids.size(0), result.tokens = ids.size(1);
  const HeadRequest request = make_request(options, config, result, models);
  note(fmt::format("{}: patterns on {} token{}", name, result.tokens, result.tokens == 1 ? "" : "s"));
  result.collected = collect_heads(model, ids, request);
  return result;
}

std::string describe_block(const HeadsOptions& options, const ModelHeads& model) {
  const size_t shown = model.collected.shown.size(), blank = model.collected.blank.size();
  const bool show_blank = options.blank == "show" || options.preset == "task";
  std::string text = fmt::format("{} of {} heads", shown, model.layers * model.heads);
  if (options.preset == "task") {
    text = fmt::format("{} of {} heads are needed for {:.0f} % of the {} task", model.task->needed,
                       model.layers * model.heads, 100 * model.task->description["threshold"].get<double>(), name_task(model));
  }
  if (blank == 0) text += "; none blank";
  if (blank > 0)
    text +=
        show_blank ? fmt::format("; {} of them blank", blank) : fmt::format("; {} blank, left out", blank);
  const size_t hidden = static_cast<size_t>(model.collected.looked_at) - (show_blank ? 0 : blank) - shown;
  if (hidden > 0) text += fmt::format("; {} more not shown", hidden);
  const int64_t cells = shown > 0 ? model.collected.shown.front().cells.side : 0;
  if (cells > 0 && cells < model.tokens)
    text += fmt::format("; {} tokens averaged into {} cells", model.tokens, cells);
  return text;
}

draw::HeadGrid make_head_grid(const HeadsOptions& options, const std::vector<ModelHeads>& models) {
  draw::HeadGrid grid;
  grid.caption.title = options.preset == "task"
                           ? fmt::format("Heads needed for {:.0f} % of the {} task, most important first",
                                         100 * models.front().task->description["threshold"].get<double>(), name_task(models.front()))
                           : "Attention heads";
  grid.caption.subtitle = models.front().subtitle;
  grid.shade = options.shade == "linear" ? draw::Shade::kLinear : draw::Shade::kSquareRoot;
  grid.shared_scale = options.scale == "shared";
  if (options.scale_high > 0) grid.scale_high = options.scale_high;
  grid.frame_name = describe_frames(options);
  const int columns = choose_columns(options, models);
  for (const ModelHeads& model : models) {
    draw::HeadBlock block{short_name(model.name) + (model.gated ? " (gated)" : ""),
                          describe_block(options, model),
                          columns,
                          {},
                          model.marks};
    for (const CollectedHead& head : model.collected.shown)
      block.panels.push_back({head.place.name(), head.cells, head.frames});
    grid.blocks.push_back(std::move(block));
  }
  return grid;
}

}  // namespace openwork
