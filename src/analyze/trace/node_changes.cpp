#include "analyze/trace/node_changes.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/number_text.h"

namespace openwork {
namespace {

constexpr const char* kOptions = "--ablate, --boost";

// With transcoders features and errors are nodes, without whole MLPs.
bool has_kind(const TracedModel& traced, TraceNodeKind kind) {
  if (kind == TraceNodeKind::kEmbedding) return true;
  return (kind == TraceNodeKind::kMlp) != traced.transcoders.has_value();
}

int64_t count_features(const TracedModel& traced, int64_t layer) {
  return traced.transcoders->layers[static_cast<size_t>(layer)].features();
}

void check_node(const TraceNode& node, const TracedModel& traced, int64_t tokens) {
  const std::string name = node.name(), model = printable(traced.title, 60);
  if (node.layer >= traced.model.config().layers)
    fail_input(fmt::format("no {} in {}", name, model), kOptions,
               fmt::format("it has {} layers", traced.model.config().layers));
  if (node.position >= tokens)
    fail_input(fmt::format("no {} in a prompt of {}", name, count_of(tokens, "token")), kOptions,
               fmt::format("positions are 0 to {}", tokens - 1));
  if (!has_kind(traced, node.kind))
    fail_input(
        fmt::format("no {} in {}, traced with{} transcoders", name, model, traced.transcoders ? "" : "out"),
        kOptions,
        traced.transcoders ? "name a feature (L3F512@7), an error (E3@7), an embedding (T@7) or a head"
                           : "name an MLP (M3@7), an embedding (T@7) or a head, or give --transcoder");
  if (node.kind == TraceNodeKind::kFeature && node.feature >= count_features(traced, node.layer))
    fail_input(fmt::format("no {} in {}", name, model), kOptions,
               fmt::format("its layers have {} features", count_features(traced, node.layer)));
}

}  // namespace

void check_node_changes(const std::vector<NodeChange>& changes, const TracedModel& traced, int64_t tokens) {
  for (const NodeChange& change : changes) {
    if (const std::optional<TraceNode> node = parse_trace_node(change.node))
      check_node(*node, traced, tokens);
  }
}

}  // namespace openwork
