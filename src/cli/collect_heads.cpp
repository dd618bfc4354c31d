#include "cli/collect_heads.h"

#include <algorithm>

namespace openwork {
namespace {

CollectedHead look_at(const PatternView& pattern, const HeadRequest& request) {
  CollectedHead head{
      pattern.place, summarise_pattern(pattern, std::max<size_t>(request.frames, 1)), {}, 0, {}};
  if (request.watched) {
    const draw::TokenPair& pair = *request.watched;
    head.summary.strongest = {{pair.query, pair.key, pattern.at(pair.query, pair.key)}};
  }
  head.cells = {pattern.tokens, std::min(request.cells, pattern.tokens), {}};
  if (head.summary.blank()) return head;
  head.cells = draw::average_cells(pattern.values, pattern.tokens, request.cells);
  if (!head.summary.strongest.empty()) head.strength = head.summary.strongest.front().value;
  return head;
}

void put_in_order(std::vector<CollectedHead>& heads, const HeadRequest& request) {
  if (request.order == HeadOrder::kGiven) return;
  const auto importance = [&](const CollectedHead& head) {
    const auto it = request.importance.find(head.place);
    return it != request.importance.end() ? it->second : head.strength;
  };
  std::stable_sort(heads.begin(), heads.end(),
                   [&](const auto& a, const auto& b) { return importance(a) > importance(b); });
}

// The strongest cells of all heads together, whichever heads they are in.
void mark_strongest(std::vector<CollectedHead>& heads, size_t frames) {
  struct Candidate {
    double value;
    size_t head;
    draw::TokenPair pair;
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

}  // namespace

CollectedHeads collect_heads(const Transformer& model, const at::Tensor& ids, const HeadRequest& request) {
  std::map<HeadPlace, size_t> wanted;  // where each head goes; heads of a layer are seen on several threads
  for (size_t n = 0; n < request.heads.size(); ++n) wanted[request.heads[n]] = n;
  std::vector<CollectedHead> heads(request.heads.size());
  visit_patterns(model, ids, [&](const PatternView& pattern) {
    const auto it = wanted.find(pattern.place);
    if (it != wanted.end()) heads[it->second] = look_at(pattern, request);
  });
  CollectedHeads result;
  result.looked_at = static_cast<int64_t>(heads.size());
  for (const CollectedHead& head : heads) {
    if (head.summary.blank()) result.blank.push_back(head.place);
  }
  if (!request.show_blank)
    std::erase_if(heads, [](const CollectedHead& head) { return head.summary.blank(); });
  put_in_order(heads, request);
  if (request.top > 0 && static_cast<int64_t>(heads.size()) > request.top)
    heads.resize(static_cast<size_t>(request.top));
  mark_strongest(heads, request.frames);
  result.shown = std::move(heads);
  return result;
}

}  // namespace openwork
