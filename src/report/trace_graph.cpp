#include "report/trace_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/graph_format.h"
#include "report/trace_json.h"
#include "transcode/descriptions.h"

namespace openwork {
namespace {

constexpr size_t kMostHeadEntries = 1'000'000;  // in one file: about 18 MB

// circuit-tracer writes logits one layer above the number of layers.
int64_t logit_layer(const TraceGraph& graph) {
  return graph.layers + 1;
}

const char* feature_type(TraceNodeKind kind) {
  switch (kind) {
    case TraceNodeKind::kEmbedding:
      return "embedding";
    case TraceNodeKind::kFeature:
      return "cross layer transcoder";  // viewers' word for both kinds of transcoder
    case TraceNodeKind::kMlp:
    case TraceNodeKind::kError:
      return "mlp reconstruction error";
    case TraceNodeKind::kBias:
      return "bias";
    case TraceNodeKind::kLogit:
      return "logit";
  }
  return "";
}

std::string layer_text(const TraceGraph& graph, const TraceNode& node) {
  if (node.kind == TraceNodeKind::kLogit) return std::to_string(logit_layer(graph));
  return node.layer < 0 ? "E" : std::to_string(node.layer);
}

// Viewers tell nodes apart by layer, feature and position: what is no feature takes a number of its own below
// 0.
int64_t feature_number(const TraceNode& node) {
  switch (node.kind) {
    case TraceNodeKind::kFeature:
      return pair_index(node.layer, node.feature);
    case TraceNodeKind::kEmbedding:
      return node.position;
    case TraceNodeKind::kLogit:
      return node.feature;
    case TraceNodeKind::kMlp:
    case TraceNodeKind::kError:
      return -1;
    case TraceNodeKind::kBias:
      return -2;
  }
  return -1;
}

std::string label_of(const TraceNode& node, const std::string& about) {
  switch (node.kind) {
    case TraceNodeKind::kFeature:
    case TraceNodeKind::kEmbedding:
      return about;
    case TraceNodeKind::kMlp:
      return fmt::format("MLP {}", node.layer);
    case TraceNodeKind::kError:
      return fmt::format("Error of layer {}", node.layer);
    case TraceNodeKind::kBias:
      return fmt::format("Biases of layer {}", node.layer);
    case TraceNodeKind::kLogit:  // viewers read the probability out of the label
      return fmt::format("Output \"{}\" (p={:.3f})", about.empty() ? std::to_string(node.feature) : about,
                         node.probability);
  }
  return about;
}

nlohmann::json make_node(const TraceGraph& graph, const TraceNode& node, bool first_target,
                         const std::string& about) {
  const bool logit = node.kind == TraceNodeKind::kLogit, feature = node.kind == TraceNodeKind::kFeature;
  const std::string id = graph_node_id(graph, node);
  const size_t position = id.rfind('_');
  nlohmann::json json = {
      {"node_id", id},
      {"feature", feature_number(node)},
      {"layer", layer_text(graph, node)},
      {"ctx_idx", node.position},
      {"feature_type", feature_type(node.kind)},
      {"token_prob", logit ? node.probability : 0.0},
      {"is_target_logit", logit && first_target},
      {"run_idx", 0},
      {"reverse_ctx_idx", 0},
      {"jsNodeId", logit ? fmt::format("L_{}-{}", node.feature, node.position)
                         : id.substr(0, position) + "-" + (feature ? "0" : id.substr(position + 1))},
      {"clerp", label_of(node, about)},
      {"influence", nullptr},
      {"activation", nullptr},
      {"own_influence", node.influence},
      {"name", node.name()}};
  if (!logit) json["influence"] = node.cumulative;
  if (feature) json["activation"] = node.value;
  return json;
}

// How many heads of a link are written: all of them, unless the file would grow past what viewers open.
size_t heads_written(const TraceGraph& graph) {
  size_t entries = 0, carried = 0;
  for (const TraceLink& link : graph.links)
    entries += link.heads.size(), carried += link.heads.empty() ? 0 : 1;
  return entries <= kMostHeadEntries ? static_cast<size_t>(graph.layers * graph.heads)
                                     : std::max<size_t>(1, kMostHeadEntries / carried);
}

// Seven digits are what a float32 share has; more would only fill the file.
double round_share(double weight) {
  return std::stod(fmt::format("{:.7g}", weight));
}

nlohmann::json make_link(const TraceGraph& graph, const TraceLink& link, size_t most_heads) {
  nlohmann::json json = {{"source", graph_node_id(graph, graph.nodes.at(static_cast<size_t>(link.source)))},
                         {"target", graph_node_id(graph, graph.nodes.at(static_cast<size_t>(link.target)))},
                         {"weight", link.weight}};
  if (link.heads.empty()) return json;
  nlohmann::json& heads = json["heads"] = nlohmann::json::array();
  double others = link.other_heads;
  for (size_t n = 0; n < link.heads.size(); ++n) {
    const HeadShare& share = link.heads[n];
    if (n >= most_heads)
      others += share.weight;
    else
      heads.push_back(
          {{"layer", share.head.layer}, {"head", share.head.head}, {"weight", round_share(share.weight)}});
  }
  if (others != 0) json["other_heads"] = round_share(others);
  return json;
}

nlohmann::json list_supernodes(const TraceGraph& graph, const std::vector<Supernode>& supernodes) {
  nlohmann::json groups = nlohmann::json::array();
  for (const Supernode& supernode : supernodes) {
    nlohmann::json group = nlohmann::json::array({supernode.label()});
    for (const int64_t node : supernode.nodes)
      group.push_back(graph_node_id(graph, graph.nodes.at(static_cast<size_t>(node))));
    groups.push_back(group);
  }
  return groups;
}

nlohmann::json make_metadata(const TraceGraph& graph, const TraceGraphOrigin& origin) {
  nlohmann::json metadata = {
      {"slug", origin.slug},
      {"scan", origin.scan},
      {"transcoder_list", nlohmann::json::array()},
      {"prompt_tokens", graph.tokens},
      {"prompt", origin.prompt},
      {"schema_version", 1},
      {"info",
       {{"description", "Attribution graph with the heads that carry each link between tokens"},
        {"generator", {{"name", origin.program}, {"version", origin.version}}},
        {"create_time_ms", origin.created_ms}}},
      {"generation_settings",
       {{"max_n_logits",
         std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [](const TraceNode& node) { return node.kind == TraceNodeKind::kLogit; })},
        {"max_feature_nodes", origin.max_nodes}}},
      {"protocol", origin.protocol}};
  write_thresholds(metadata, {graph.node_threshold, graph.edge_threshold});
  if (!origin.record.is_null()) metadata["openwork"] = origin.record;
  if (!origin.feature_url.empty())
    metadata["feature_details"] = {{"feature_json_base_url", origin.feature_url}};
  return metadata;
}

}  // namespace

std::string graph_node_id(const TraceGraph& graph, const TraceNode& node) {
  switch (node.kind) {
    case TraceNodeKind::kFeature:
      return fmt::format("{}_{}_{}", node.layer, node.feature, node.position);
    case TraceNodeKind::kEmbedding:
      return fmt::format("E_{}_{}", node.feature, node.position);
    case TraceNodeKind::kMlp:
      return fmt::format("mlp_{}_{}", node.layer, node.position);
    case TraceNodeKind::kError:
      return fmt::format("error_{}_{}", node.layer, node.position);
    case TraceNodeKind::kBias:
      return fmt::format("bias_{}_{}", node.layer, node.position);
    case TraceNodeKind::kLogit:
      return fmt::format("{}_{}_{}", logit_layer(graph), node.feature, node.position);
  }
  return "";
}

nlohmann::json describe_trace(const ModelTrace& trace) {
  nlohmann::json record = {{"title", trace.title},
                           {"text", trace.text},
                           {"layers", trace.graph.layers},
                           {"heads", trace.graph.heads},
                           {"transcoders", to_json(trace.transcoders)},
                           {"worth", nullptr},
                           {"explanation", nullptr},
                           {"supernodes", supernodes_json(trace, trace.supernodes.size())},
                           {"query_key", scores_json(trace)}};
  if (trace.graph.worth) record["worth"] = to_json(*trace.graph.worth);
  if (trace.explanation) record["explanation"] = to_json(*trace.explanation);
  return record;
}

nlohmann::json make_trace_graph(const TraceGraph& graph, const TraceGraphOrigin& origin,
                                const NodeLabels& labels) {
  nlohmann::json nodes = nlohmann::json::array(), links = nlohmann::json::array();
  bool first = true;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    nodes.push_back(make_node(graph, graph.nodes[n], first, n < labels.size() ? labels[n] : ""));
    if (graph.nodes[n].kind == TraceNodeKind::kLogit) first = false;
  }
  const size_t most_heads = heads_written(graph);
  for (const TraceLink& link : graph.links) links.push_back(make_link(graph, link, most_heads));
  return {{"metadata", make_metadata(graph, origin)},
          {"qParams", make_view(list_supernodes(graph, origin.supernodes))},
          {"nodes", nodes},
          {"links", links}};
}

nlohmann::json traces_json(const std::vector<ModelTrace>& traces, int64_t max_nodes, int64_t max_links) {
  constexpr int64_t kStrongest = 20;  // nodes that a record lists
  constexpr size_t kHeads = 8;        // of a link
  nlohmann::json models = nlohmann::json::array();
  for (const ModelTrace& trace : traces) {
    TraceGraphOrigin origin;
    origin.slug = trace.name, origin.scan = trace.scan, origin.prompt = trace.text;
    origin.program = "openwork";
    origin.max_nodes = max_nodes;
    origin.supernodes = trace.supernodes;
    const TraceGraph graph = thin_graph(trace.graph, static_cast<size_t>(max_links), kHeads);
    models.push_back({{"name", trace.name},
                      {"trace", to_json(trace, kStrongest)},
                      {"graph", make_trace_graph(graph, origin, trace.labels)}});
  }
  return {{"one_answer", have_one_answer(traces)}, {"models", models}};
}

}  // namespace openwork
