#include "report/graph_format.h"

#include <algorithm>

namespace openwork {
namespace {

using Json = nlohmann::json;

}  // namespace

HeadShare read_head_share(const Json& json) {
  const bool listed = json.is_array();
  return {{(listed ? json.at(0) : json.at("layer")).get<int64_t>(),
           (listed ? json.at(1) : json.at("head")).get<int64_t>()},
          (listed ? json.at(2) : json.at("weight")).get<double>()};
}

void write_thresholds(Json& metadata, const GraphThresholds& thresholds) {
  metadata["node_threshold"] = thresholds.nodes;
  metadata["pruning_settings"] = {{"node_threshold", thresholds.nodes}, {"edge_threshold", thresholds.edges}};
}

GraphThresholds read_thresholds(const Json& metadata) {
  const Json settings = metadata.value("pruning_settings", Json::object());
  const auto share = [&](const char* key, const Json& otherwise) {
    const Json value = settings.is_object() ? settings.value(key, otherwise) : otherwise;
    return value.is_number() && value.get<double>() > 0 ? std::min(value.get<double>(), 1.0) : 1.0;
  };
  return {share("node_threshold", metadata.value("node_threshold", Json())), share("edge_threshold", Json())};
}

Json make_view(const Json& supernodes) {
  return {{"pinnedIds", Json::array()},
          {"supernodes", supernodes},
          {"linkType", "both"},
          {"clickedId", ""},
          {"sg_pos", ""}};
}

void prune_view(Json& view, const std::set<std::string>& ids) {
  if (!view.is_object()) return;
  Json groups = Json::array(), pinned = Json::array();
  for (const Json& group : view.value("supernodes", Json::array())) {
    Json left = Json::array();
    for (size_t n = 0; n < group.size(); ++n) {
      if (n == 0 || ids.contains(group[n].get<std::string>())) left.push_back(group[n]);
    }
    if (left.size() > 1) groups.push_back(std::move(left));
  }
  for (const Json& id : view.value("pinnedIds", Json::array()))
    if (ids.contains(id.get<std::string>())) pinned.push_back(id);
  view["supernodes"] = groups, view["pinnedIds"] = pinned;
  if (const Json clicked = view.value("clickedId", Json()); clicked.is_string() && !ids.contains(clicked))
    view["clickedId"] = "";
}

std::set<std::string> list_node_ids(const Json& nodes) {
  std::set<std::string> ids;
  for (const Json& node : nodes) ids.insert(node.at("node_id").get<std::string>());
  return ids;
}

}  // namespace openwork
