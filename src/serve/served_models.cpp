#include "serve/served_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analyze/circuits/part.h"
#include "analyze/heads/head_selection.h"
#include "analyze/prompts.h"
#include "base/error.h"

namespace openwork::serve {

ServedModels::ServedModels(std::vector<TracedModel> models) : models_(std::move(models)) {
  if (models_.empty()) fail_input("no model", "serve", "name at least one");
  for (size_t n = 0; n < models_.size(); ++n) {
    const TracedModel& model = models_[n];
    if (!model.tokenizer) fail_input("no tokenizer", model.name, "serve models that read text");
    for (size_t before = 0; before < n; ++before) {
      if (models_[before].name == model.name) fail_input("named twice", model.name, "name each model once");
    }
  }
}

const TracedModel& ServedModels::find(const std::string& name) const {
  for (const TracedModel& model : models_) {
    if (model.name == name) return model;
  }
  std::vector<std::string> names;
  for (const TracedModel& model : models_) names.push_back(model.name);
  fail_input(fmt::format("no model '{}'", printable(name, 60)), "request",
             fmt::format("use {}", fmt::join(names, ", ")));
}

std::vector<const TracedModel*> ServedModels::select(const std::vector<std::string>& names) const {
  for (const std::string& name : names) find(name);
  std::vector<const TracedModel*> chosen;
  for (const TracedModel& model : models_) {
    if (names.empty() || std::find(names.begin(), names.end(), model.name) != names.end())
      chosen.push_back(&model);
  }
  return chosen;
}

std::vector<int64_t> tokenise(const TracedModel& model, const std::string& text) {
  return encode_prompt(text, *model.tokenizer, model.beginning, model.model.config());
}

std::vector<std::string> token_texts(const TracedModel& model, const std::vector<int64_t>& ids) {
  std::vector<std::string> texts;
  for (const int64_t id : ids) texts.push_back(model.text_of(id));
  return texts;
}

std::vector<HeadPlace> read_heads(const TracedModel& model, const std::vector<std::string>& names) {
  if (names.empty()) return all_heads(model.model.config());
  return parse_head_names(fmt::format("{}", fmt::join(names, ",")), model.model.config(), "heads");
}

nlohmann::json describe_served(const TracedModel& model) {
  const ModelConfig& config = model.model.config();
  const bool gated = config.gate != GateKind::kNone;
  nlohmann::json json = {{"name", model.name},
                         {"architecture", config.architecture},
                         {"layers", config.layers},
                         {"heads", config.heads},
                         {"head_size", config.head_size},
                         {"context", config.context},
                         {"vocabulary", config.vocabulary},
                         {"gated", gated},
                         {"gate", nullptr},
                         {"device", model.model.device().str()},
                         {"features", model.transcoders.has_value()}};
  if (gated) json["gate"] = gate_name(config.gate);
  return json;
}

}  // namespace openwork::serve
