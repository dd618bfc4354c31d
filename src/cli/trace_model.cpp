#include "cli/trace_model.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/correlation.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/head_selection.h"
#include "io/atomic_file.h"
#include "io/model_store.h"
#include "transcode/transcoder_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

constexpr double kGibibyte = 1 << 30;

// The folder a model's files are in: an adapter's own, not its base's.
fs::path own_folder(const std::string& name) {
  const LocatedModel located = locate_model(name);
  const fs::path path = located.adapter.value_or(located.path);
  return fs::is_directory(path) ? path : path.parent_path();
}

std::optional<int64_t> parse_position(const std::string& text) {
  int64_t position = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, position);
  return error == std::errc() && next == end ? std::optional(position) : std::nullopt;
}

// The token that holds the last byte of the word where it stands last in the text.
int64_t find_word(const TracedModel& traced, const TracePrompt& prompt, const std::string& word,
                  const std::string& option) {
  const size_t at = prompt.text.rfind(word);
  if (at == std::string::npos || prompt.text.empty()) {
    fail_input(fmt::format("'{}' is neither a position nor a word of the prompt", printable(word, 60)),
               option, fmt::format("give a position from 0 to {}, or a word", prompt.ids.size() - 1));
  }
  size_t seen = 0;
  for (size_t n = static_cast<size_t>(traced.count_beginning(prompt.ids)); n < prompt.ids.size(); ++n) {
    seen += traced.tokenizer->piece(static_cast<int32_t>(prompt.ids[n])).size();
    if (seen >= at + word.size()) return static_cast<int64_t>(n);
  }
  return static_cast<int64_t>(prompt.ids.size()) - 1;
}

std::optional<int64_t> read_position(const TracedModel& traced, const TracePrompt& prompt,
                                     const std::string& text, const std::string& option) {
  if (text.empty()) return std::nullopt;
  const std::optional<int64_t> position = parse_position(text);
  if (!position) return find_word(traced, prompt, text, option);
  if (*position < 0 || *position >= static_cast<int64_t>(prompt.ids.size())) {
    fail_input(fmt::format("position {} of a prompt of {} tokens", *position, prompt.ids.size()), option,
               fmt::format("positions are 0 to {}", prompt.ids.size() - 1));
  }
  return position;
}

int64_t read_target(const TracedModel& traced, const std::string& text) {
  if (!traced.tokenizer) {
    if (const std::optional<int64_t> id = parse_position(text)) return *id;
    fail_input(fmt::format("'{}' cannot be tokenised: the model has no tokenizer", printable(text, 60)),
               "--target", "give a token's id");
  }
  const std::vector<int32_t> ids = traced.tokenizer->encode(text);
  if (ids.size() == 1) return ids.front();
  std::string pieces;
  for (const int32_t id : ids)
    pieces += fmt::format("{}'{}'", pieces.empty() ? "" : " ", printable(traced.tokenizer->piece(id), 30));
  fail_input(fmt::format("'{}' is not one token but {}{}", printable(text, 60), ids.size(),
                         ids.empty() ? "" : ": " + pieces),
             "--target", "give one token, with its space where it has one");
}

// The tokens that something is moved from, by the absolute head shares of their links, each as its part in
// what reaches the answer.
std::vector<MovedFrom> find_moved(const TraceGraph& graph, int64_t to) {
  const std::vector<double> parts = parts_in_answer(graph);
  std::vector<double> sums(graph.ids.size(), 0);
  double total = 0;
  for (const TraceLink& link : graph.links) {
    const TraceNode &source = graph.nodes[static_cast<size_t>(link.source)],
                    &target = graph.nodes[static_cast<size_t>(link.target)];
    if (target.position != to || source.position >= to || source.kind == TraceNodeKind::kBias) continue;
    for (const HeadShare& head : link.heads) {
      const double part = std::abs(head.weight) * parts[static_cast<size_t>(link.target)];
      sums[static_cast<size_t>(source.position)] += part;
      total += part;
    }
  }
  std::vector<MovedFrom> moved;
  for (size_t n = 0; n < sums.size(); ++n) {
    if (sums[n] > 0) moved.push_back({static_cast<int64_t>(n), sums[n] / total});
  }
  std::stable_sort(moved.begin(), moved.end(),
                   [](const MovedFrom& a, const MovedFrom& b) { return a.share > b.share; });
  return moved;
}

// The token that most is moved from; the first one (the sink) and others that stand before the text aside.
int64_t choose_source(int64_t first, const std::vector<MovedFrom>& moved, int64_t to) {
  for (const MovedFrom& from : moved) {
    if (from.position >= first) return from.position;
  }
  return moved.empty() ? to - 1 : moved.front().position;
}

struct ScoreRequest {
  HeadPlace head;
  int64_t query = 0, key = 0;
};

// L5H1:8<-5
ScoreRequest parse_score(const std::string& text, const ModelConfig& config, int64_t tokens) {
  const size_t colon = text.find(':'), arrow = text.find("<-");
  const auto refuse = [&](const std::string& what) {
    fail_input(
        what, "--query-key",
        fmt::format("write it like L5H1:8<-5, positions 0 to {}, the key not after the query", tokens - 1));
  };
  if (colon == std::string::npos || arrow == std::string::npos || arrow < colon)
    refuse(fmt::format("'{}' is no pattern entry", printable(text, 60)));
  ScoreRequest request;
  request.head = parse_head_names(text.substr(0, colon), config, "--query-key").front();
  const auto query = parse_position(text.substr(colon + 1, arrow - colon - 1)),
             key = parse_position(text.substr(arrow + 2));
  if (!query || !key || *query < 0 || *query >= tokens || *key < 0 || *key > *query)
    refuse(fmt::format("no pattern entry '{}' in {} tokens", printable(text, 60), tokens));
  request.query = *query, request.key = *key;
  return request;
}

// NODE=X
std::pair<std::string, double> parse_boost(const std::string& text) {
  const size_t equals = text.rfind('=');
  double factor = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = equals == std::string::npos
                                 ? std::from_chars_result{text.data(), std::errc::invalid_argument}
                                 : std::from_chars(text.data() + equals + 1, end, factor);
  if (error != std::errc() || next != end || !std::isfinite(factor))
    fail_input(fmt::format("'{}' is not NODE=X", printable(text, 60)), "--boost",
               "write it like L3F512@7=2 or L5H1=1.5");
  return {text.substr(0, equals), factor};
}

// What is known of a feature; null where nothing is.
const FeatureDescription* find_description(const TracedModel& traced, const TraceNode& node) {
  if (!traced.descriptions || node.kind != TraceNodeKind::kFeature) return nullptr;
  const auto& layers = traced.descriptions->layers;
  const size_t layer = static_cast<size_t>(node.layer), feature = static_cast<size_t>(node.feature);
  return layer < layers.size() && feature < layers[layer].size() ? &layers[layer][feature] : nullptr;
}

// A token's text; of a feature, the token that most of its contexts peak at.
std::string label_node(const TracedModel& traced, const TraceNode& node) {
  if (node.kind == TraceNodeKind::kLogit || node.kind == TraceNodeKind::kEmbedding)
    return traced.text_of(node.feature);
  const FeatureDescription* about = find_description(traced, node);
  std::map<int32_t, int> counts;
  int32_t most = -1;
  for (const FeatureContext& context : about ? about->contexts : std::vector<FeatureContext>()) {
    const int32_t token = context.tokens.at(static_cast<size_t>(context.peak));
    if (++counts[token] > (most < 0 ? 0 : counts[most])) most = token;
  }
  return most < 0 ? "" : traced.text_of(most);
}

HeadExplanation explain_move(Tracer& tracer, const TracedModel& traced, const TracePrompt& prompt,
                             ModelTrace& trace, double share) {
  const int64_t to = prompt.to.value_or(static_cast<int64_t>(prompt.ids.size()) - 1);
  trace.moved = find_moved(trace.graph, to);
  const int64_t from =
      prompt.from ? *prompt.from
      : to > 0    ? choose_source(std::max<int64_t>(1, traced.count_beginning(prompt.ids)), trace.moved, to)
                  : 0;
  if (from >= to) {
    fail_input(fmt::format("from position {} to position {}", from, to), "--from, --to",
               "something moves from an earlier token to a later one");
  }
  return tracer.explain(from, to, share);
}

}  // namespace

std::string TracedModel::text_of(int64_t id) const {
  if (!tokenizer || id < 0 || id >= tokenizer->size()) return fmt::format("{}", id);
  return tokenizer->piece(static_cast<int32_t>(id));
}

int64_t TracedModel::count_beginning(const std::vector<int64_t>& ids) const {
  const auto [end, _] = std::mismatch(beginning.begin(), beginning.end(), ids.begin(), ids.end());
  return end == beginning.end() ? static_cast<int64_t>(beginning.size()) : 0;
}

std::vector<std::string> choose_transcoders(const TraceOptions& options,
                                            const std::vector<std::string>& models) {
  std::vector<std::string> folders = options.transcoders;
  if (!folders.empty() && folders.size() != models.size()) {
    fail_input(fmt::format("{} transcoder folders for {} models", folders.size(), models.size()),
               "--transcoder", "give one for each model, in their order, or none");
  }
  if (!folders.empty()) {
    std::replace(folders.begin(), folders.end(), std::string("none"), std::string());
    return folders;
  }
  for (const std::string& model : models) {
    const fs::path folder = own_folder(model) / "transcoders";
    folders.push_back(fs::is_directory(folder) ? folder.string() : "");
  }
  if (std::find(folders.begin(), folders.end(), "") == folders.end()) return folders;
  for (size_t n = 0; n < models.size(); ++n) {
    if (!folders[n].empty())
      note(fmt::format("{} has transcoders and another model has none: MLPs are nodes in all", models[n]));
    folders[n].clear();
  }
  return folders;
}

TracedModel open_traced_model(const std::string& name, const std::string& transcoders,
                              const CommonOptions& common) {
  if (common.dtype != "fp32")
    fail_input("tracing in " + common.dtype, "--dtype", "use fp32: effects are sums that must be exact");
  return attach_transcoders(open_model(name, common), name, transcoders);
}

TracedModel attach_transcoders(Transformer model, const std::string& name, const std::string& transcoders) {
  TracedModel traced{.name = name,
                     .model = std::move(model),
                     .tokenizer = {},
                     .beginning = {},
                     .transcoders = {},
                     .transcoder_files = nullptr,
                     .descriptions = {}};
  if (transcoders.empty()) return traced;
  traced.transcoders = load_transcoders(transcoders, traced.model.device());
  check_transcoders_fit(*traced.transcoders, traced.model.config(), model_hash(locate_model(name)),
                        transcoders);
  traced.descriptions = load_descriptions(transcoders);
  traced.transcoder_files = {{"path", fs::path(transcoders).filename().string()},
                             {"sha256", model_hash(transcoders)},
                             {"kind", traced.transcoders->kind == TranscoderKind::kPerLayer ? "plt" : "clt"},
                             {"features", traced.transcoders->layers.front().features()},
                             {"scan", traced.transcoders->scan}};
  return traced;
}

size_t write_features(const std::string& folder, const TracedModel& traced, const TraceGraph& graph) {
  if (!traced.descriptions || !traced.tokenizer) {
    fail_input(
        fmt::format("nothing is known of {}'s features", printable(traced.name, 80)), "--features-out",
        "use transcoders with descriptions (openwork transcode --describe) and a model with a tokenizer");
  }
  fs::create_directories(folder);
  size_t count = 0;
  for (const TraceNode& node : graph.nodes) {
    const FeatureDescription* about = find_description(traced, node);
    if (about == nullptr) continue;
    const nlohmann::json details = feature_details(*about, node.layer, node.feature, *traced.tokenizer);
    const fs::path path = fs::path(folder) / fmt::format("{}.json", pair_index(node.layer, node.feature));
    write_text_file(path, details.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    ++count;
  }
  return count;
}

TracePrompt read_trace_prompt(const TracedModel& traced, const std::vector<int64_t>& ids,
                              const std::string& text, const std::vector<std::string>& targets,
                              const std::string& from, const std::string& to) {
  TracePrompt prompt{ids, {}, text, {}, {}};
  for (const std::string& target : targets) {
    const int64_t id = read_target(traced, target);
    if (std::find(prompt.targets.begin(), prompt.targets.end(), id) == prompt.targets.end())
      prompt.targets.push_back(id);
  }
  prompt.from = read_position(traced, prompt, from, "--from");
  prompt.to = read_position(traced, prompt, to, "--to");
  if (prompt.from && *prompt.from >= prompt.to.value_or(static_cast<int64_t>(ids.size()) - 1)) {
    fail_input(fmt::format("from position {} to position {}", *prompt.from,
                           prompt.to.value_or(static_cast<int64_t>(ids.size()) - 1)),
               "--from, --to", "something moves from an earlier token to a later one");
  }
  return prompt;
}

ModelTrace trace_prompt(const TracedModel& traced, const TracePrompt& prompt, const TraceOptions& options) {
  TraceSettings settings;
  settings.targets = prompt.targets;
  settings.max_nodes = options.max_nodes;
  settings.memory = static_cast<int64_t>(options.memory * kGibibyte);
  const Transcoders* transcoders = traced.transcoders ? &*traced.transcoders : nullptr;
  const int64_t tokens = static_cast<int64_t>(prompt.ids.size());
  std::vector<ScoreRequest> scores;  // read before the work: a slip is found at once
  for (const std::string& text : options.scores)
    scores.push_back(parse_score(text, traced.model.config(), tokens));
  std::vector<std::pair<std::string, double>> changes;
  for (const std::string& node : options.ablate) changes.emplace_back(node, 0);
  for (const std::string& text : options.boost) changes.push_back(parse_boost(text));

  ModelTrace trace;
  trace.name = traced.name, trace.transcoder_files = traced.transcoder_files;
  trace.scan = transcoders != nullptr && !transcoders->scan.empty() ? transcoders->scan : traced.name;
  trace.bytes_needed =
      static_cast<double>(Tracer::bytes_needed(traced.model.config(), transcoders, tokens, settings));
  Tracer tracer(traced.model, transcoders, at::tensor(prompt.ids, at::kLong), settings);
  Progress progress("tracing " + traced.name, 0, " nodes");
  trace.graph = tracer.find_graph([&](int64_t done, int64_t all) {
    progress.set(static_cast<uint64_t>(done), fmt::format("of {}", all));
  });
  for (const int64_t id : prompt.ids) trace.graph.tokens.push_back(traced.text_of(id));
  for (const TraceNode& node : trace.graph.nodes) trace.labels.push_back(label_node(traced, node));
  if (tokens > 1) trace.explanation = explain_move(tracer, traced, prompt, trace, options.explain);
  for (const auto& [node, factor] : changes) trace.interventions.push_back(tracer.intervene(node, factor));
  for (const ScoreRequest& score : scores)
    trace.scores.push_back(
        tracer.attribute_score(score.head, score.query, score.key, static_cast<size_t>(options.top)));
  return trace;
}

ModelTrace trace_given(TracedModel& traced, const GivenPrompts& given, const TraceOptions& options,
                       const ModelTrace* first) {
  TokenPrompts made = tokenise_prompts(given, traced.name, traced.model.config(), options.common);
  if (made.ids.size() != 1)
    fail_input(fmt::format("{} prompts", made.ids.size()), "--tokens-file",
               "give one, or use --prompts FILE");
  traced.tokenizer = std::move(made.tokenizer);
  traced.beginning = made.beginning;
  TracePrompt prompt =
      read_trace_prompt(traced, made.ids.front(), given.texts.empty() ? "" : given.texts.front(),
                        options.targets, options.from, options.to);
  if (first != nullptr && !prompt.from && first->graph.ids == prompt.ids && first->explanation)
    prompt.from = first->explanation->from;
  return trace_prompt(traced, prompt, options);
}

InterventionAgreement compare_interventions(const std::vector<TraceIntervention>& interventions) {
  InterventionAgreement agreement;
  std::vector<float> predicted, measured;
  for (const TraceIntervention& change : interventions) {
    agreement.same_sign += (change.predicted < 0) == (change.measured < 0);
    predicted.push_back(static_cast<float>(change.predicted));
    measured.push_back(static_cast<float>(change.measured));
  }
  agreement.count = static_cast<int64_t>(interventions.size());
  agreement.correlation = agreement.count < 3 ? std::nan("") : pearson_correlation(predicted, measured);
  return agreement;
}

}  // namespace openwork
