#include "report/graph_pruning.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyze/trace/prune_graph.h"
#include "base/error.h"
#include "io/json.h"
#include "io/sha256.h"
#include "report/graph_format.h"

namespace openwork {
namespace {

using Json = nlohmann::json;
using Names = std::set<std::string>;

Json keep_flagged(Json& list, const std::vector<bool>& flags) {
  Json kept = Json::array();
  for (size_t n = 0; n < list.size(); ++n) {
    if (flags[n]) kept.push_back(std::move(list[n]));
  }
  return kept;
}

// A supernode stays what it was in the whole graph; only its list of nodes is shorter, and says by how much.
Json prune_supernodes(const Json& groups, const Names& names) {
  Json kept = Json::array();
  for (Json group : groups) {
    Json nodes = Json::array();
    for (const Json& name : group.at("nodes"))
      if (names.contains(name.get<std::string>())) nodes.push_back(name);
    const size_t gone = group["nodes"].size() - nodes.size();
    if (gone > 0) group["left_out"] = group.value("left_out", size_t{0}) + gone;
    group["nodes"] = nodes;
    if (!nodes.empty()) kept.push_back(std::move(group));
  }
  return kept;
}

// Which entries of a score's side stay; those that go are joined with the rest, which is named null and comes last.
struct Side {
  Json names = Json::array();
  std::vector<size_t> place;  // by former entry: its new one
};

Side fold_side(const Json& side, const Names& names) {
  Side folded;
  const auto stays = [&](const Json& name) {
    return name.is_string() && names.contains(name.get<std::string>());
  };
  for (const Json& name : side)
    if (stays(name)) folded.names.push_back(name);
  const size_t rest = folded.names.size();
  size_t next = 0;
  for (const Json& name : side) folded.place.push_back(stays(name) ? next++ : rest);
  if (rest < side.size()) folded.names.push_back(nullptr);
  return folded;
}

void fold_score(Json& score, const Names& names) {
  const Side queries = fold_side(score.at("queries"), names), keys = fold_side(score.at("keys"), names);
  std::vector<std::vector<double>> weights(queries.names.size(), std::vector<double>(keys.names.size(), 0.0));
  for (size_t q = 0; q < queries.place.size(); ++q) {
    for (size_t k = 0; k < keys.place.size(); ++k)
      weights[queries.place[q]][keys.place[k]] += score.at("weights").at(q).at(k).get<double>();
  }
  score["queries"] = queries.names, score["keys"] = keys.names, score["weights"] = weights;
}

Json describe_size(double node_threshold, double edge_threshold, size_t nodes, size_t links,
                   double influence) {
  return {{"node_threshold", node_threshold},
          {"edge_threshold", edge_threshold},
          {"nodes", nodes},
          {"links", links},
          {"influence", influence}};
}

// What names nodes beside the lists of nodes and links.
void prune_views(Json& file, const TraceGraph& graph, const std::vector<bool>& kept) {
  if (file.contains("qParams")) prune_view(file["qParams"], list_node_ids(file["nodes"]));
  Names names;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (kept[n]) names.insert(graph.nodes[n].name());
  }
  Json& record = file["metadata"]["openwork"];
  if (record.contains("supernodes")) record["supernodes"] = prune_supernodes(record["supernodes"], names);
  if (!record.contains("query_key")) return;
  for (Json& score : record["query_key"]) fold_score(score, names);
}

}  // namespace

Json prune_stored_graph(Json file, const KeptTrace& kept, const PruneSettings& settings,
                        const std::filesystem::path& path) {
  const TraceGraph& graph = kept.trace.graph;
  const double node_threshold = std::min(settings.node_threshold.value_or(1), graph.node_threshold),
               edge_threshold = std::min(settings.edge_threshold.value_or(1), graph.edge_threshold);
  const GraphPruning pruning = prune_graph(graph, node_threshold, edge_threshold);
  file["nodes"] = keep_flagged(file["nodes"], pruning.nodes);
  file["links"] = keep_flagged(file["links"], pruning.links);
  Json step = describe_size(node_threshold, edge_threshold, file["nodes"].size(), file["links"].size(),
                            pruning.influence_after);
  step["file"] = path.filename().string(), step["sha256"] = sha256_of_file(path);
  step["from"] = describe_size(graph.node_threshold, graph.edge_threshold, graph.nodes.size(),
                               graph.links.size(), pruning.influence_before);
  try {
    prune_views(file, graph, pruning.nodes);
  } catch (const Json::exception& error) {
    fail_input(fmt::format("no attribution graph ({})", printable(without_label(error.what()), 120)),
               path.string(), "give a file that trace --graph wrote");
  }
  Json& metadata = file["metadata"];
  write_thresholds(metadata, {node_threshold, edge_threshold});
  metadata["openwork"]["pruned"].push_back(std::move(step));
  return file;
}

std::string describe_pruning(const Json& graph) {
  const Json& step = graph.at("metadata").at("openwork").at("pruned").back();
  return fmt::format("{} of {} nodes, {} of {} links, {:.1f} % of the influence",
                     step.at("nodes").get<int64_t>(), step.at("from").at("nodes").get<int64_t>(),
                     step.at("links").get<int64_t>(), step.at("from").at("links").get<int64_t>(),
                     100 * step.at("influence").get<double>());
}

}  // namespace openwork
