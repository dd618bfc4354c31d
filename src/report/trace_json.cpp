#include "report/trace_json.h"

#include <cmath>
#include <map>

#include "io/interval_json.h"
#include "report/trace_interventions.h"

namespace openwork {

nlohmann::json to_json(const HeadExplanation& explanation) {
  std::map<HeadPlace, double> flows;
  for (const HeadShare& flow : explanation.flows) flows[flow.head] = flow.weight;
  nlohmann::json heads = nlohmann::json::array();
  for (size_t n = 0; n < explanation.heads.size(); ++n) {
    const HeadPlace& head = explanation.heads[n].head;
    heads.push_back({{"head", head.name()},
                     {"weight", explanation.heads[n].weight},
                     {"signed", n < explanation.signed_heads.size() ? explanation.signed_heads[n].weight : 0},
                     {"flow", flows.contains(head) ? flows.at(head) : 0}});
  }
  return {{"from", explanation.from},     {"to", explanation.to},       {"share", explanation.share},
          {"needed", explanation.needed}, {"total", explanation.total}, {"heads", heads}};
}

namespace {

nlohmann::json node_json(const ModelTrace& trace, size_t n) {
  const TraceNode& node = trace.graph.nodes[n];
  nlohmann::json json = {{"name", node.name()},         {"kind", kind_name(node.kind)}, {"layer", node.layer},
                         {"position", node.position},   {"feature", nullptr},           {"value", node.value},
                         {"influence", node.influence}, {"about", trace.labels[n]}};
  if (node.kind == TraceNodeKind::kFeature) json["feature"] = node.feature;
  return json;
}

nlohmann::json interventions_json(const ModelTrace& trace) {
  nlohmann::json rows = nlohmann::json::array();
  for (const TraceIntervention& change : trace.interventions) rows.push_back(to_json(change));
  return rows;
}

// A node's name; null: everything else.
nlohmann::json name_or_null(const ModelTrace& trace, int64_t node) {
  if (node < 0) return nullptr;
  return trace.graph.nodes[static_cast<size_t>(node)].name();
}

nlohmann::json prompt_json(const PromptHeads& prompt) {
  nlohmann::json heads = nlohmann::json::array();
  for (const HeadPlace& head : prompt.heads) heads.push_back(head.name());
  return {{"from", prompt.from},
          {"to", prompt.to},
          {"target", prompt.target},
          {"probability", prompt.probability},
          {"needed", prompt.needed},
          {"heads", heads},
          {"sums", {{"effects", prompt.sums.effects}, {"heads", prompt.sums.heads}}}};
}

}  // namespace

nlohmann::json to_json(const TraceWorth& worth) {
  nlohmann::json json = {{"replacement_score", worth.replacement},
                         {"completeness_score", worth.completeness},
                         {"error_share", worth.error_share},
                         {"loss", nullptr},
                         {"replaced_loss", nullptr},
                         {"replaced_probability", worth.replaced_probability}};
  if (!std::isnan(worth.model_loss))
    json["loss"] = worth.model_loss, json["replaced_loss"] = worth.replaced_loss;
  return json;
}

nlohmann::json scores_json(const ModelTrace& trace) {
  nlohmann::json rows = nlohmann::json::array();
  for (const QueryKeyAttribution& score : trace.scores) {
    nlohmann::json pairs = nlohmann::json::array(), queries = pairs, keys = pairs;
    for (const QueryKeyPair& pair : score.pairs) {
      pairs.push_back({{"query", name_or_null(trace, pair.query_node)},
                       {"key", name_or_null(trace, pair.key_node)},
                       {"weight", pair.weight}});
    }
    for (const int64_t node : score.queries) queries.push_back(name_or_null(trace, node));
    for (const int64_t node : score.keys) keys.push_back(name_or_null(trace, node));
    rows.push_back({{"entry", score.name()},
                    {"score", score.score},
                    {"pairs", pairs},
                    {"queries", queries},
                    {"keys", keys},
                    {"weights", score.weights}});
  }
  return rows;
}

nlohmann::json supernodes_json(const ModelTrace& trace, size_t most) {
  nlohmann::json groups = nlohmann::json::array();
  for (size_t n = 0; n < trace.supernodes.size() && n < most; ++n) {
    const Supernode& group = trace.supernodes[n];
    nlohmann::json nodes = nlohmann::json::array(), fed = nodes;
    for (const int64_t node : group.nodes) nodes.push_back(name_or_null(trace, node));
    for (const FedBy& token : group.fed)
      fed.push_back({{"position", token.position}, {"share", token.share}});
    groups.push_back({{"label", group.label()},
                      {"kind", kind_name(group.kind)},
                      {"position", group.position},
                      {"layers", {group.first_layer, group.last_layer}},
                      {"influence", group.influence},
                      {"effect", group.effect},
                      {"fed", fed},
                      {"about", group.about},
                      {"says", group.says},
                      {"nodes", nodes}});
  }
  return groups;
}

nlohmann::json to_json(const std::optional<TranscoderFiles>& files) {
  if (!files) return nullptr;
  return {{"path", files->path},
          {"sha256", files->sha256},
          {"kind", files->kind},
          {"features", files->features},
          {"scan", files->scan}};
}

nlohmann::json to_json(const ModelTrace& trace, int64_t top) {
  const TraceGraph& graph = trace.graph;
  nlohmann::json targets = nlohmann::json::array(), moved = nlohmann::json::array(),
                 nodes = nlohmann::json::array();
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    if (node.kind == TraceNodeKind::kLogit)
      targets.push_back({{"id", node.feature},
                         {"token", trace.labels[n]},
                         {"logit", node.value},
                         {"probability", node.probability}});
  }
  for (const MovedFrom& from : trace.moved) moved.push_back({{"from", from.position}, {"share", from.share}});
  for (const size_t n : strongest_nodes(graph, top)) nodes.push_back(node_json(trace, n));
  nlohmann::json json = {{"name", trace.name},
                         {"ids", graph.ids},
                         {"tokens", graph.tokens},
                         {"transcoders", to_json(trace.transcoders)},
                         {"targets", targets},
                         {"nodes", graph.nodes.size()},
                         {"links", graph.links.size()},
                         {"active_features", graph.active_features},
                         {"attributed", graph.nodes_attributed},
                         {"bytes_needed", trace.bytes_needed},
                         {"sums",
                          {{"effects", graph.sums.effects},
                           {"targets", graph.sums.targets},
                           {"heads", graph.sums.heads},
                           {"links", graph.sums.links}}},
                         {"worth", nullptr},
                         {"explanation", nullptr},
                         {"moved", moved},
                         {"strongest", nodes},
                         {"supernodes", supernodes_json(trace, static_cast<size_t>(top))},
                         {"interventions", interventions_json(trace)},
                         {"query_key", scores_json(trace)}};
  if (graph.worth) json["worth"] = to_json(*graph.worth);
  if (trace.explanation) json["explanation"] = to_json(*trace.explanation);
  if (!trace.interventions.empty()) {
    const InterventionAgreement agreement = compare_interventions(trace.interventions);
    json["agreement"] = {{"same_sign", agreement.same_sign},
                         {"of", agreement.count},
                         {"correlation", nullptr},
                         {"rank", nullptr}};
    if (!std::isnan(agreement.correlation)) json["agreement"]["correlation"] = agreement.correlation;
    if (!std::isnan(agreement.rank)) json["agreement"]["rank"] = agreement.rank;
  }
  return json;
}

nlohmann::json to_json(const HeadsByPrompt& model) {
  nlohmann::json prompts = nlohmann::json::array();
  for (const PromptHeads& prompt : model.prompts) prompts.push_back(prompt_json(prompt));
  return {{"name", model.name},
          {"mean", model.mean},
          {"interval", interval_json(model.interval)},
          {"prompts", prompts}};
}

nlohmann::json to_json(const HeadRatio& ratio) {
  return {{"dense", ratio.dense},
          {"sparse", ratio.sparse},
          {"ratio", ratio.ratio},
          {"interval", interval_json(ratio.interval)}};
}

}  // namespace openwork
