// One prompt: what both models say next and how every head looks at it; with heads off; layer by layer; head
// against head.
#include <ATen/ATen.h>
#include <algorithm>
#include <numeric>

#include "analyze/heads/head_scatter.h"
#include "analyze/heads/patterns.h"
#include "analyze/logit_lens.h"
#include "analyze/next_tokens.h"
#include "analyze/switched_heads.h"
#include "model/head_lists.h"
#include "report/next_tokens_json.h"
#include "report/scatter_figure.h"
#include "serve/answers.h"

namespace openwork::serve {
namespace {

Tensor batch_of_one(const TracedModel& model, const std::vector<int64_t>& ids) {
  return at::tensor(ids, at::kLong).unsqueeze(0).to(model.model.device());  // [1, T]
}

// Edges that each head keeps on the prompt, layer by layer; a dense head keeps all its pairs, a removed one none.
std::vector<int64_t> count_kept(const ModelConfig& config, const GateTotals& gates, int64_t tokens) {
  std::vector<int64_t> kept(static_cast<size_t>(config.layers * config.heads), 0);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (const int64_t head : kept_queries(config, layer))
      kept[static_cast<size_t>(layer * config.heads + head)] = tokens * (tokens + 1) / 2;
  }
  for (size_t layer = 0; layer < gates.active.size(); ++layer) {
    const Tensor row = gates.active[layer][0].to(at::kCPU, at::kLong).contiguous();  // [H]
    std::copy_n(row.const_data_ptr<int64_t>(), config.heads,
                kept.begin() + static_cast<int64_t>(layer) * config.heads);
  }
  return kept;
}

// Every head's summary, layer by layer.
nlohmann::json summarise_heads(const TracedModel& model, const std::vector<int64_t>& ids,
                               const std::vector<int64_t>& kept) {
  const ModelConfig& config = model.model.config();
  std::vector<PatternSummary> summaries(static_cast<size_t>(config.layers * config.heads));
  visit_patterns(model.model, batch_of_one(model, ids), [&](const PatternView& pattern) {
    summaries[static_cast<size_t>(pattern.place.layer * config.heads + pattern.place.head)] =
        summarise_pattern(pattern, 1);
  });
  nlohmann::json heads = nlohmann::json::array();
  for (size_t n = 0; n < summaries.size(); ++n) {
    const auto index = static_cast<int64_t>(n);
    const PatternSummary& summary = summaries[n];
    heads.push_back({{"head", HeadPlace{index / config.heads, index % config.heads}.name()},
                     {"mass", summary.mass},
                     {"peak", summary.peak},
                     {"strength", summary.strongest.empty() ? 0 : summary.strongest.front().value},
                     {"kept", kept[n]},
                     {"blank", summary.blank()}});
  }
  return heads;
}

nlohmann::json list_tokens(const TracedModel& model, const std::vector<NextToken>& tokens) {
  nlohmann::json rows = nlohmann::json::array();
  for (const NextToken& token : tokens) rows.push_back(to_json(token, model.text_of(token.id)));
  return rows;
}

nlohmann::json run_prompt(const TracedModel& model, const RunRequest& request) {
  const std::vector<int64_t> ids = tokenise(model, request.prompt);
  const auto tokens = static_cast<int64_t>(ids.size());
  GateTotals gates;
  const Tensor logits = next_logits(model.model, ids, {.gate_totals = &gates});
  const std::vector<int64_t> kept = count_kept(model.model.config(), gates, tokens);
  const double pairs = static_cast<double>(kept.size()) * static_cast<double>(tokens * (tokens + 1) / 2);
  return {{"name", model.name},
          {"ids", ids},
          {"tokens", token_texts(model, ids)},
          {"next", list_tokens(model, likely_tokens(logits, request.top))},
          {"prompt_kept_edges",
           static_cast<double>(std::accumulate(kept.begin(), kept.end(), int64_t{0})) / pairs},
          {"heads", summarise_heads(model, ids, kept)}};
}

nlohmann::json switch_heads(const TracedModel& model, const SwitchRequest& request) {
  const std::vector<int64_t> ids = tokenise(model, request.prompt);
  std::vector<int64_t> instead;
  if (request.corrupt) instead = tokenise(model, *request.corrupt);
  std::vector<HeadPlace> off;
  const auto named = request.off.find(model.name);
  if (named != request.off.end() && !named->second.empty()) off = read_heads(model, named->second);
  const Tensor before = next_logits(model.model, ids);
  const Tensor now = switched_logits(model.model, ids, off, instead);
  const auto row = [&](const NextToken& token, const NextToken& earlier) {
    return to_json(token, earlier, model.text_of(token.id));
  };
  const std::vector<NextToken> answer = likely_tokens(before, 1), next = likely_tokens(now, request.top),
                               next_before = find_tokens(before, next);
  nlohmann::json rows = nlohmann::json::array(), names = nlohmann::json::array();
  for (size_t n = 0; n < next.size(); ++n) rows.push_back(row(next[n], next_before[n]));
  for (const HeadPlace& place : off) names.push_back(place.name());
  return {{"name", model.name},
          {"off", names},
          {"answer", row(find_tokens(now, answer).front(), answer.front())},
          {"next", rows}};
}

}  // namespace

Answer answer(const ServedModels& models, const RunRequest& request, Work&) {
  nlohmann::json list = nlohmann::json::array();
  for (const TracedModel* model : models.select(request.models)) list.push_back(run_prompt(*model, request));
  return json_answer({{"prompt", request.prompt}, {"models", list}});
}

Answer answer(const ServedModels& models, const SwitchRequest& request, Work&) {
  for (const auto& [name, unused] : request.off) models.find(name);
  nlohmann::json list = nlohmann::json::array();
  for (const TracedModel* model : models.select(request.models))
    list.push_back(switch_heads(*model, request));
  return json_answer({{"models", list}});
}

Answer answer(const ServedModels& models, const LensRequest& request, Work&) {
  const TracedModel& model = models.find(request.model);
  const std::vector<int64_t> ids = tokenise(model, request.prompt);
  nlohmann::json json =
      to_json(read_lens(model.model, ids, request.top), [&](int64_t id) { return model.text_of(id); });
  json["model"] = model.name;
  json["tokens"] = token_texts(model, ids);
  return json_answer(json);
}

Answer answer(const ServedModels& models, const ScatterRequest& request, Work&) {
  const std::vector<const TracedModel*> chosen = models.select(request.models);
  std::vector<std::string> names = request.heads;
  nlohmann::json list = nlohmann::json::array();
  for (const TracedModel* model : chosen) {
    const std::vector<int64_t> ids = tokenise(*model, request.prompt);
    const Tensor batch = batch_of_one(*model, ids);
    if (names.empty()) {  // of the first model; the others show the same
      for (const HeadPlace& place : find_sharpest(model->model, batch)) names.push_back(place.name());
    }
    check_scatter(names.size(), static_cast<int64_t>(ids.size()));
    HeadScatter scatter = scatter_heads(model->model, batch, read_heads(*model, names));
    scatter.name = model->name;
    list.push_back(to_json(scatter));
  }
  return json_answer({{"models", list}});
}

}  // namespace openwork::serve
