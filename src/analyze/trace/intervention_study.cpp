#include "analyze/trace/intervention_study.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyze/trace/trace.h"
#include "base/philox.h"
#include "base/progress.h"

namespace openwork {
namespace {

std::vector<NodeChange> ablate_all(const std::vector<std::string>& names) {
  std::vector<NodeChange> changes;
  for (const std::string& name : names) changes.push_back({name, 0});
  return changes;
}

bool can_be_attributed(const TraceNode& node) {
  return node.kind == TraceNodeKind::kFeature || node.kind == TraceNodeKind::kMlp;
}

std::vector<std::string> top_features(const TraceGraph& graph, int64_t most) {
  std::vector<std::string> names;
  for (const size_t n : strongest_nodes(graph, static_cast<int64_t>(graph.nodes.size()))) {
    if (static_cast<int64_t>(names.size()) < most && can_be_attributed(graph.nodes[n]))
      names.push_back(graph.nodes[n].name());
  }
  return names;
}

std::vector<std::string> top_heads(const TraceGraph& graph, int64_t most) {
  std::vector<std::string> names;
  for (const HeadPlace& head : strongest_heads(graph)) {
    if (static_cast<int64_t>(names.size()) < most) names.push_back(head.name());
  }
  return names;
}

// `most` of `names` that are not in `taken`, drawn without replacement.
std::vector<std::string> draw_others(std::vector<std::string> names, const std::vector<std::string>& taken,
                                     int64_t most, uint64_t seed) {
  const std::set<std::string> out(taken.begin(), taken.end());
  std::erase_if(names, [&](const std::string& name) { return out.contains(name); });
  std::vector<std::string> drawn;
  for (uint64_t n = 0; n < static_cast<uint64_t>(most) && !names.empty(); ++n) {
    const size_t pick = (static_cast<uint64_t>(philox(seed, n).word[0]) * names.size()) >> 32;
    drawn.push_back(names[pick]);
    names.erase(names.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  return drawn;
}

std::vector<std::string> all_features(const Tracer& tracer) {
  std::vector<std::string> names;
  for (const TraceNode& node : tracer.sources()) {
    if (can_be_attributed(node)) names.push_back(node.name());
  }
  return names;
}

std::vector<std::string> all_heads(const ModelConfig& config) {
  std::vector<std::string> names;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    for (int64_t head = 0; head < config.heads; ++head) names.push_back(HeadPlace{layer, head}.name());
  return names;
}

}  // namespace

const char* set_name(KnockOutSet set) {
  constexpr std::array<const char*, 4> kNames = {"top_features", "random_features", "top_heads",
                                                 "random_heads"};
  return kNames[static_cast<size_t>(set)];
}

std::vector<HeadPlace> strongest_heads(const TraceGraph& graph) {
  const std::vector<double> parts = parts_in_answer(graph);
  std::map<HeadPlace, double> carried;
  for (const TraceLink& link : graph.links) {
    for (const HeadShare& share : link.heads)
      carried[share.head] += std::abs(share.weight) * parts[static_cast<size_t>(link.target)];
  }
  std::vector<std::pair<double, HeadPlace>> order;
  for (const auto& [head, weight] : carried) order.emplace_back(-weight, head);
  std::sort(order.begin(), order.end());
  std::vector<HeadPlace> heads;
  for (const auto& [weight, head] : order) heads.push_back(head);
  return heads;
}

PromptKnockOuts knock_out_top(const TracedModel& traced, const TracePrompt& prompt,
                              const KnockOutSettings& settings,
                              const std::function<void(int64_t, int64_t)>& advance) {
  TraceSettings how;
  how.targets = prompt.targets, how.max_nodes = settings.trace.max_nodes, how.memory = settings.trace.memory;
  Tracer tracer(traced.model, traced.transcoders ? &*traced.transcoders : nullptr,
                at::tensor(prompt.ids, at::kLong), how);
  const TraceGraph& graph = tracer.find_graph(advance);
  const TraceNode& target = graph.nodes[first_target(graph)];
  PromptKnockOuts found{traced.text_of(target.feature), target.probability, {}};
  const std::vector<std::string> features = top_features(graph, settings.features),
                                 heads = top_heads(graph, settings.heads);
  const std::array<std::vector<std::string>, 4> names = {
      features,
      draw_others(all_features(tracer), features, static_cast<int64_t>(features.size()), settings.seed),
      heads,
      draw_others(all_heads(traced.model.config()), heads, static_cast<int64_t>(heads.size()),
                  settings.seed)};
  for (size_t n = 0; n < names.size(); ++n) found.sets[n] = tracer.intervene(ablate_all(names[n]));
  return found;
}

InterventionStudy study_prompts(const TracedModel& traced, const std::vector<TracePrompt>& prompts,
                                const KnockOutSettings& settings) {
  std::vector<PromptKnockOuts> found;
  Progress progress("knocking out in " + traced.name, prompts.size(), " prompts");
  for (size_t n = 0; n < prompts.size(); ++n) {
    KnockOutSettings own = settings;
    own.seed = settings.seed + n;
    found.push_back(knock_out_top(traced, prompts[n], own));
    progress.set(n + 1);
  }
  return summarise_knock_outs(traced.title, std::move(found), settings.seed);
}

}  // namespace openwork
