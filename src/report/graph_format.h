// Parts of a graph's file (docs/trace.md) that are written in one place and read or changed in another: head shares, what was
// left out, and the view, which is public viewers' own (qParams). report/trace_graph.h writes the whole, report/trace_kept.h
// reads it.
#pragma once
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "analyze/trace/trace_records.h"

namespace openwork {

// [layer, head, weight], as files have it, or with names, as answers of the server have it and files had before.
HeadShare read_head_share(const nlohmann::json& json);

// How far a graph was pruned: metadata's node_threshold, as viewers read it, and pruning_settings.
struct GraphThresholds {
  double nodes = 1, edges = 1;  // shares of the influence; 1: nothing was left out
};
void write_thresholds(nlohmann::json& metadata, const GraphThresholds& thresholds);
// Where a file does not say what was left out, nothing was.
GraphThresholds read_thresholds(const nlohmann::json& metadata);

// What a viewer shows at first. `supernodes`: [[label, node id, ...], ...].
nlohmann::json make_view(const nlohmann::json& supernodes);
// Leaves in it what names one of `ids`, those of the graph's nodes.
void prune_view(nlohmann::json& view, const std::set<std::string>& ids);
std::set<std::string> list_node_ids(const nlohmann::json& nodes);

}  // namespace openwork
