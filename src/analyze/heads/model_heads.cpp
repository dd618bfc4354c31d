#include "analyze/heads/model_heads.h"

#include <algorithm>
#include <map>

namespace openwork {
namespace {

CollectedHead look_at(const PatternView& pattern, const HeadsSettings& settings) {
  CollectedHead head{
      pattern.place, summarise_pattern(pattern, std::max<size_t>(settings.frames, 1)), {}, 0, {}};
  if (settings.watched) {
    const TokenPair& pair = *settings.watched;
    head.summary.strongest = {{pair.query, pair.key, pattern.at(pair.query, pair.key)}};
  }
  head.cells = {pattern.tokens, std::min(settings.cells, pattern.tokens), {}};
  if (head.summary.blank()) return head;
  head.cells = average_cells(pattern.values, pattern.tokens, settings.cells);
  if (!head.summary.strongest.empty()) head.strength = head.summary.strongest.front().value;
  return head;
}

void put_in_order(std::vector<CollectedHead>& heads, const HeadsSettings& settings) {
  if (settings.order == HeadOrder::kGiven) return;
  const auto importance = [&](const CollectedHead& head) {
    if (!settings.task) return head.strength;
    const auto it = settings.task->importance.find(head.place);
    return it != settings.task->importance.end() ? it->second : head.strength;
  };
  std::stable_sort(heads.begin(), heads.end(),
                   [&](const auto& a, const auto& b) { return importance(a) > importance(b); });
}

// The strongest cells of all heads together, whichever heads they are in.
void mark_strongest(std::vector<CollectedHead>& heads, size_t frames) {
  struct Candidate {
    double value;
    size_t head;
    TokenPair pair;
  };
  std::vector<Candidate> cells;
  for (size_t n = 0; n < heads.size(); ++n) {
    if (heads[n].cells.values.empty()) continue;
    for (const PatternCell& cell : heads[n].summary.strongest) {
      if (cell.value > 0) cells.push_back({cell.value, n, {cell.query, cell.key}});
    }
  }
  std::stable_sort(cells.begin(), cells.end(),
                   [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
  for (size_t n = 0; n < std::min(frames, cells.size()); ++n)
    heads[cells[n].head].frames.push_back(cells[n].pair);
}

// Every head of the list, in the list's order.
std::vector<CollectedHead> look_at_all(const Transformer& model, const Tensor& ids,
                                       const HeadsSettings& settings) {
  std::map<HeadPlace, size_t> wanted;  // where each head goes; heads of a layer are seen on several threads
  for (size_t n = 0; n < settings.heads.size(); ++n) wanted[settings.heads[n]] = n;
  std::vector<CollectedHead> heads(settings.heads.size());
  visit_patterns(model, ids, [&](const PatternView& pattern) {
    const auto it = wanted.find(pattern.place);
    if (it != wanted.end()) heads[it->second] = look_at(pattern, settings);
  });
  return heads;
}

}  // namespace

ModelHeads collect_heads(const Transformer& model, const Tensor& ids, const HeadsSettings& settings) {
  std::vector<CollectedHead> heads = look_at_all(model, ids, settings);
  ModelHeads result;
  result.layers = model.config().layers, result.heads = model.config().heads;
  result.gated = model.config().gate != GateKind::kNone;
  result.prompts = ids.size(0), result.tokens = ids.size(1);
  result.looked_at = static_cast<int64_t>(heads.size());
  result.blanks_shown = settings.show_blank;
  result.task = settings.task;
  for (const CollectedHead& head : heads) {
    if (head.summary.blank()) result.blank.push_back(head.place);
  }
  if (!settings.show_blank)
    std::erase_if(heads, [](const CollectedHead& head) { return head.summary.blank(); });
  put_in_order(heads, settings);
  if (settings.top > 0 && static_cast<int64_t>(heads.size()) > settings.top)
    heads.resize(static_cast<size_t>(settings.top));
  mark_strongest(heads, settings.frames);
  result.shown = std::move(heads);
  return result;
}

}  // namespace openwork
