#include "analyze/heads/heads_request.h"

#include <fmt/format.h>

#include "analyze/heads/head_selection.h"
#include "base/error.h"

namespace openwork {
namespace {

constexpr size_t kPromptFrames = 12;  // cells the prompt preset frames in each model

std::optional<TokenPair> watched_cell(const HeadsRequest& request, int64_t tokens) {
  if (request.from < 0 && request.to < 0) return std::nullopt;
  if (request.from < 0 || request.to < 0) fail_input("one end of an edge", "--from, --to", "give both");
  if (request.from > request.to || request.to >= tokens) {
    fail_input(fmt::format("no edge from key {} to query {}", request.from, request.to), "--from, --to",
               fmt::format("keys come before queries, and positions are 0 to {}", tokens - 1));
  }
  return TokenPair{request.to, request.from};
}

// Where heads stand by layer a blank one keeps its place, so that models stand side by side row by row, unless the
// sample of a large model shows those that are left; a head the task needs is never left out.
bool keeps_blank_heads(const HeadsRequest& request, const ModelConfig& config) {
  if (!request.blank.empty() || request.preset == "task")
    return request.blank == "show" || request.preset == "task";
  const bool sample = request.preset == "sample" && is_large(config.layers, config.heads);
  return request.order == "layer" && request.top == 0 && !sample;
}

}  // namespace

size_t count_frames(const HeadsRequest& request) {
  if (request.frames >= 0) return static_cast<size_t>(request.frames);
  return request.preset == "prompt" || request.from >= 0 ? kPromptFrames : 0;
}

HeadsSettings settle_heads(const HeadsRequest& request, const ModelConfig& config,
                           std::optional<TaskNeeds> task, int64_t tokens, size_t models) {
  HeadsSettings settings;
  settings.heads = request.preset == "sample" ? sample_heads(request.layers, request.heads, config)
                                              : select_heads(request.layers, request.heads, config);
  if (request.preset == "task")
    std::erase_if(settings.heads, [&](const HeadPlace& place) { return !task->needs(place); });
  settings.order = request.order == "importance" ? HeadOrder::kImportance : HeadOrder::kGiven;
  settings.task = std::move(task);
  settings.show_blank = keeps_blank_heads(request, config);
  settings.top = request.top;
  settings.watched = watched_cell(request, tokens);
  settings.frames = count_frames(request);
  settings.cells = choose_cells(tokens, static_cast<int64_t>(settings.heads.size() * models));
  return settings;
}

}  // namespace openwork
