#include "report/heads_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyze/heads/head_selection.h"
#include "base/token_marks.h"
#include "report/captions.h"

namespace openwork {
namespace {

constexpr int64_t kFewestColumns = 4;

// Rows of whole layers where heads stand by layer; about square where they stand by importance.
int choose_columns(const std::vector<ModelHeads>& models, const HeadsLook& look) {
  if (look.columns > 0) return static_cast<int>(look.columns);
  int columns = 1;
  size_t most = 0;
  for (const ModelHeads& model : models) {
    if (look.sample && is_large(model.layers, model.heads)) return 16;
    if (model.looked_at == 0) continue;
    const int64_t looked_at = model.looked_at,
                  layers = std::min(model.layers,
                                    std::max<int64_t>(1, looked_at / std::min(model.heads, looked_at)));
    columns = std::max(columns, draw::choose_columns(layers, std::max<int64_t>(1, looked_at / layers)));
    most = std::max(most, model.shown.size());
  }
  if (look.whole_layers) return columns;
  const auto square = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(most))));
  return static_cast<int>(std::max(kFewestColumns, square));
}

nlohmann::json to_json(const ModelHeads& model, const CollectedHead& head) {
  nlohmann::json frames = nlohmann::json::array();
  for (const TokenPair& pair : head.frames)
    frames.push_back(fmt::format("{}:{}<-{}", head.place.name(), pair.query, pair.key));
  nlohmann::json result = {{"head", head.place.name()},     {"mass", head.summary.mass},
                           {"peak", head.summary.peak},     {"strength", head.strength},
                           {"blank", head.summary.blank()}, {"frames", frames}};
  if (model.task) result["effect"] = model.task->importance.at(head.place);
  return result;
}

// Among the heads shown, or, where blank ones are left out, among all that were looked at.
size_t count_blank(const ModelHeads& model) {
  if (!model.blanks_shown) return model.blank.size();
  return static_cast<size_t>(std::count_if(model.shown.begin(), model.shown.end(),
                                           [](const auto& head) { return head.summary.blank(); }));
}

// Cells along a panel's edge; 0 where no head is shown.
int64_t cells_of(const ModelHeads& model) {
  return model.shown.empty() ? 0 : model.shown.front().cells.side;
}

}  // namespace

std::string title_heads(const ModelHeads& model, bool needed) {
  if (!needed) return "Attention heads";
  return fmt::format("Heads needed for {:.0f} % of the {} task, most important first",
                     100 * model.task->threshold, model.task->task);
}

std::string describe_frames(size_t frames, const std::optional<TokenPair>& watched,
                            const std::vector<std::string>& pieces) {
  if (frames == 0) return "";
  const auto place = [&](int64_t position) {
    const auto at = static_cast<size_t>(position);
    return at < pieces.size() ? fmt::format("{} {}", position, quote_token(pieces[at]))
                              : std::to_string(position);
  };
  if (watched)
    return fmt::format("key {} to query {}, in the {} heads where it is strongest", place(watched->key),
                       place(watched->query), frames);
  return fmt::format(
      "the {} strongest moves between tokens of each model (the first key and the token itself aside)",
      frames);
}

std::string describe_heads(const ModelHeads& model, bool needed) {
  const size_t shown = model.shown.size(), blank = count_blank(model);
  std::string text = fmt::format("{} of {} heads", shown, model.layers * model.heads);
  if (needed) {
    text = fmt::format("{} of {} heads are needed for {:.0f} % of the {} task", model.task->needed,
                       model.layers * model.heads, 100 * model.task->threshold, model.task->task);
    if (shown < model.task->needed) text += fmt::format(", {} of them shown", shown);
  }
  if (blank == 0) {
    text += "; none blank";
  } else {
    text += fmt::format("; {}{}", blank, model.blanks_shown ? " of them blank" : " blank, left out");
  }
  const size_t hidden = static_cast<size_t>(model.looked_at) - (model.blanks_shown ? 0 : blank) - shown;
  if (hidden > 0 && !needed) text += fmt::format("; {} more not shown", hidden);
  const int64_t cells = cells_of(model);
  if (cells > 0 && cells < model.tokens)
    text += fmt::format("; {} tokens averaged into {} cells", model.tokens, cells);
  return text;
}

draw::HeadGrid make_head_grid(const std::vector<ModelHeads>& models, const HeadsLook& look,
                              const draw::Caption& caption) {
  draw::HeadGrid grid;
  grid.caption = caption;
  grid.shade = look.shade;
  grid.shared_scale = look.shared_scale;
  if (look.scale_high > 0) grid.scale_high = look.scale_high;
  grid.frame_name = look.frame_name;
  const int columns = choose_columns(models, look);
  const std::vector<std::string> names = short_names_of(models);
  for (size_t n = 0; n < models.size(); ++n) {
    const ModelHeads& model = models[n];
    draw::HeadBlock block{title_model(names[n], model.gated),
                          describe_heads(model, look.needed),
                          columns,
                          {},
                          mark_tokens(model.pieces)};
    for (const CollectedHead& head : model.shown)
      block.panels.push_back({head.place.name(), head.cells, head.frames});
    grid.blocks.push_back(std::move(block));
  }
  return grid;
}

nlohmann::json to_json(const ModelHeads& model) {
  nlohmann::json shown = nlohmann::json::array(), blank = nlohmann::json::array();
  for (const CollectedHead& head : model.shown) shown.push_back(to_json(model, head));
  for (const HeadPlace& place : model.blank) blank.push_back(place.name());
  nlohmann::json result = {
      {"name", model.name},           {"gated", model.gated},     {"heads", model.layers * model.heads},
      {"looked_at", model.looked_at}, {"shown", shown},           {"blank", blank},
      {"tokens", model.tokens},       {"prompts", model.prompts}, {"cells", cells_of(model)}};
  if (model.task) {
    result["heads_at_threshold"] = model.task->needed;
    result["faithfulness"] = model.task->faithfulness;
  }
  return result;
}

}  // namespace openwork
