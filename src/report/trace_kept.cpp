#include "report/trace_kept.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "base/error.h"
#include "io/json.h"
#include "report/captions.h"
#include "report/graph_format.h"

namespace openwork {
namespace {

using Json = nlohmann::json;

// Rows are drawn for every layer: a small file may not ask for many.
int64_t check_layer(int64_t layer) {
  constexpr int64_t kMostLayers = 1 << 16;
  if (layer < 0 || layer > kMostLayers) throw std::out_of_range(fmt::format("layer {}", layer));
  return layer;
}

class KeptGraph {
 public:
  explicit KeptGraph(const Json& file)
      : file_(file), record_(file.at("metadata").value("openwork", Json::object())) {}

  KeptTrace read() {
    const Json& metadata = file_.at("metadata");
    if (const Json& protocol = metadata.value("protocol", Json()); protocol.is_object())
      kept_.made = describe_protocol(protocol);
    ModelTrace& trace = kept_.trace;
    trace.name = trace.scan = metadata.at("scan").get<std::string>();
    trace.title = record_.value("title", trace.scan);
    trace.text = record_.value("text", metadata.at("prompt").get<std::string>());
    trace.graph.tokens = metadata.at("prompt_tokens").get<std::vector<std::string>>();
    trace.graph.heads = record_.value("heads", int64_t{0});
    trace.graph.layers = check_layer(record_.value("layers", int64_t{0}));
    const GraphThresholds thresholds = read_thresholds(metadata);
    trace.graph.node_threshold = thresholds.nodes, trace.graph.edge_threshold = thresholds.edges;
    for (const Json& node : file_.at("nodes")) add_node(node);
    for (TraceNode& node : trace.graph.nodes)
      if (node.kind == TraceNodeKind::kLogit) node.layer = trace.graph.layers;
    for (const Json& link : file_.at("links")) add_link(link);
    if (first_target(trace.graph) == trace.graph.nodes.size()) throw std::out_of_range("no logit");
    read_record();
    return std::move(kept_);
  }

 private:
  void add_node(const Json& json);
  void add_link(const Json& json);
  void check_link(const TraceLink& link) const;
  void read_record();
  void read_explanation(const Json& json);
  void read_supernodes(const Json& json);
  void read_scores(const Json& json);
  int64_t named(const Json& name) const { return by_name_.at(name.get<std::string>()); }
  int64_t named_or_rest(const Json& name) const { return name.is_null() ? -1 : named(name); }
  int64_t token_at(const Json& json, const char* key) const { return check_token(json.at(key)); }
  int64_t check_token(int64_t position) const {
    if (position >= 0 && position < static_cast<int64_t>(kept_.trace.graph.tokens.size())) return position;
    throw std::out_of_range(fmt::format("position {}", position));
  }

  const Json& file_;
  const Json record_;
  KeptTrace kept_;
  std::map<std::string, int64_t> by_id_, by_name_;
};

TraceNodeKind kind_of(const std::string& type, const std::string& id) {
  if (type == "embedding") return TraceNodeKind::kEmbedding;
  if (type == "logit") return TraceNodeKind::kLogit;
  if (type == "bias") return TraceNodeKind::kBias;
  if (type == "mlp reconstruction error")
    return id.starts_with("mlp_") ? TraceNodeKind::kMlp : TraceNodeKind::kError;
  return TraceNodeKind::kFeature;
}

// 'Output " small" (p=0.600)' -> ' small'
std::string token_of(const std::string& label) {
  const size_t from = label.find('"'), to = label.rfind('"');
  return from == std::string::npos || to <= from ? label : label.substr(from + 1, to - from - 1);
}

void KeptGraph::add_node(const Json& json) {
  TraceGraph& graph = kept_.trace.graph;
  const std::string id = json.at("node_id"), layer = json.at("layer"), label = json.value("clerp", "");
  TraceNode node{.kind = kind_of(json.at("feature_type"), id), .position = token_at(json, "ctx_idx")};
  node.layer = layer == "E" ? -1 : check_layer(std::stoll(layer));
  const bool answer = node.kind == TraceNodeKind::kLogit;  // one layer above the number of them
  if (node.kind != TraceNodeKind::kBias)
    graph.layers = std::max(graph.layers, node.layer + (answer ? -1 : 1));
  // L_F_P of a feature, E_ID_P of an embedding, L_ID_P of a logit: the number in the middle.
  const size_t first = id.find('_'), last = id.rfind('_');
  const bool numbered = node.kind == TraceNodeKind::kFeature || node.kind == TraceNodeKind::kEmbedding ||
                        node.kind == TraceNodeKind::kLogit;
  if (numbered && first != std::string::npos && last > first)
    node.feature = std::stoll(id.substr(first + 1, last - first - 1));
  if (json.contains("own_influence")) node.influence = json["own_influence"];
  if (json.contains("influence") && json["influence"].is_number()) node.cumulative = json["influence"];
  if (json.contains("activation") && json["activation"].is_number()) node.value = json["activation"];
  node.probability = json.value("token_prob", 0.0);
  const auto at = static_cast<int64_t>(graph.nodes.size());
  by_id_[id] = at, by_name_[node.name()] = at;
  graph.nodes.push_back(node);
  const bool has_words = node.kind == TraceNodeKind::kFeature || node.kind == TraceNodeKind::kEmbedding;
  kept_.trace.labels.push_back(node.kind == TraceNodeKind::kLogit ? token_of(label) : has_words ? label : "");
}

// Effects go up: to a feature, an MLP or a target, from a node of a lower layer or one that nothing has effects on.
void KeptGraph::check_link(const TraceLink& link) const {
  const TraceNode &source = kept_.trace.graph.nodes[static_cast<size_t>(link.source)],
                  &target = kept_.trace.graph.nodes[static_cast<size_t>(link.target)];
  const auto reads = [](const TraceNode& node) {
    return node.kind == TraceNodeKind::kFeature || node.kind == TraceNodeKind::kMlp ||
           node.kind == TraceNodeKind::kLogit;
  };
  if (!reads(target) || (reads(source) && source.layer >= target.layer))
    throw std::out_of_range(fmt::format("a link from {} to {}", source.name(), target.name()));
  if (!std::isfinite(link.weight)) throw std::out_of_range("a weight beyond float32");
}

void KeptGraph::add_link(const Json& json) {
  TraceLink link{.source = by_id_.at(json.at("source")),
                 .target = by_id_.at(json.at("target")),
                 .weight = json.at("weight").get<float>(),  // which is what is written
                 .heads = {},
                 .other_heads = json.value("other_heads", 0.0)};
  check_link(link);
  for (const Json& share : json.value("heads", Json::array())) link.heads.push_back(read_head_share(share));
  kept_.trace.graph.links.push_back(std::move(link));
}

void KeptGraph::read_explanation(const Json& json) {
  HeadExplanation explanation;
  explanation.from = token_at(json, "from"), explanation.to = token_at(json, "to"),
  explanation.share = json.at("share");
  explanation.needed = json.at("needed"), explanation.total = json.at("total");
  for (const Json& head : json.at("heads")) {
    if (const auto place = parse_head_place(head.at("head").get<std::string>()))
      explanation.heads.push_back({*place, head.at("weight").get<double>()});
  }
  kept_.trace.explanation = explanation;
}

void KeptGraph::read_supernodes(const Json& json) {
  for (const Json& group : json) {
    Supernode read{.position = token_at(group, "position"),
                   .first_layer = group.at("layers").at(0),
                   .last_layer = group.at("layers").at(1),
                   .influence = group.at("influence"),
                   .effect = group.at("effect"),
                   .about = group.at("about").get<std::vector<std::string>>(),
                   .says = group.at("says").get<std::vector<std::string>>()};
    for (const Json& name : group.at("nodes")) read.nodes.push_back(named(name));
    for (const Json& token : group.at("fed"))
      read.fed.push_back({token_at(token, "position"), token.at("share").get<double>()});
    if (read.first_layer < 0 || read.first_layer >= kept_.trace.graph.layers)
      throw std::out_of_range(fmt::format("layer {}", read.first_layer));
    read.left_out = group.value("left_out", int64_t{0});
    if (read.nodes.empty()) continue;
    read.kind = kept_.trace.graph.nodes[static_cast<size_t>(read.nodes.front())].kind;
    kept_.trace.supernodes.push_back(std::move(read));
  }
}

void KeptGraph::read_scores(const Json& json) {
  for (const Json& score : json) {
    const auto entry = parse_pattern_entry(score.at("entry").get<std::string>());
    if (!entry) continue;
    QueryKeyAttribution read;
    read.head = entry->head, read.score = score.at("score");
    read.query = check_token(entry->query), read.key = check_token(entry->key);
    for (const Json& name : score.at("queries")) read.queries.push_back(named_or_rest(name));
    for (const Json& name : score.at("keys")) read.keys.push_back(named_or_rest(name));
    read.weights = score.at("weights").get<std::vector<std::vector<double>>>();
    const bool fits = read.weights.size() == read.queries.size() &&
                      std::all_of(read.weights.begin(), read.weights.end(),
                                  [&](const auto& row) { return row.size() == read.keys.size(); });
    if (!fits) throw std::out_of_range("a score's table");
    kept_.trace.scores.push_back(std::move(read));
  }
}

void KeptGraph::read_record() {
  ModelTrace& trace = kept_.trace;
  bool features = false;
  for (const TraceNode& node : trace.graph.nodes) features |= node.kind == TraceNodeKind::kFeature;
  if (features) trace.transcoders = TranscoderFiles{};
  if (const Json& worth = record_.value("worth", Json()); worth.is_object()) {
    const auto loss = [&](const char* key) {
      return worth.at(key).is_null() ? std::nan("") : worth.at(key).get<double>();
    };
    trace.graph.worth = TraceWorth{.replacement = worth.at("replacement_score"),
                                   .completeness = worth.at("completeness_score"),
                                   .error_share = worth.at("error_share"),
                                   .model_loss = loss("loss"),
                                   .replaced_loss = loss("replaced_loss"),
                                   .replaced_probability = worth.at("replaced_probability")};
  }
  if (const Json& json = record_.value("explanation", Json()); json.is_object()) read_explanation(json);
  read_supernodes(record_.value("supernodes", Json::array()));
  read_scores(record_.value("query_key", Json::array()));
  if (const Json& steps = record_.value("pruned", Json::array()); !steps.get<std::vector<Json>>().empty())
    kept_.pruned = fmt::format("pruned again to {:.3g} of the influence and {:.3g} of its links",
                               trace.graph.node_threshold, trace.graph.edge_threshold);
  if (trace.supernodes.empty()) trace.supernodes = group_nodes(trace.graph, trace.labels, {});
}

}  // namespace

KeptTrace read_kept_trace(const Json& file, const std::filesystem::path& path) {
  try {
    return KeptGraph(file).read();
  } catch (const std::exception& error) {  // a key that is not there, a value of another kind
    fail_input(fmt::format("no attribution graph ({})", printable(without_label(error.what()), 120)),
               path.string(), "give a file that trace --graph wrote");
  }
}

}  // namespace openwork
