#include "cli/trace_interventions.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "cli/task_options.h"
#include "io/sha256.h"
#include "report/trace_interventions.h"

namespace openwork {
namespace {

// The prompts in this model's tokens; gives the tokenizer to `traced`.
std::vector<TracePrompt> read_studied(TracedModel& traced, const StudiedPrompts& prompts,
                                      const CommonOptions& common, nlohmann::json& texts) {
  std::vector<TracePrompt> read;
  GivenPrompts given;
  texts = nlohmann::json::array();
  if (prompts.task.empty()) {
    std::vector<PromptLine> lines = read_prompt_lines(prompts.file);
    lines.resize(std::min(lines.size(), static_cast<size_t>(prompts.count)));
    for (const PromptLine& line : lines) given.texts.push_back(line.prompt), texts.push_back(line.prompt);
    const std::vector<std::vector<int64_t>> ids = tokenise_for(traced, given, common);
    for (size_t n = 0; n < lines.size(); ++n)
      read.push_back(read_trace_prompt(traced, ids[n], lines[n].prompt, lines[n].question));
    return read;
  }
  const Task task = open_task(traced.name, traced.model, {prompts.task, prompts.count}, common, common.seed);
  given.ids = {task.prompts.front().clean};
  tokenise_for(traced, given, common);
  for (const TaskPrompt& prompt : task.prompts) {
    const TaskRead& last = prompt.reads.back();
    TracePrompt one;
    one.ids.assign(prompt.clean.begin(),
                   prompt.clean.begin() + static_cast<std::ptrdiff_t>(last.position) + 1);
    one.targets = {last.answers.front()};
    for (const int64_t id : one.ids) one.text += traced.text_of(id);
    texts.push_back(one.text);
    read.push_back(std::move(one));
  }
  return read;
}

InterventionStudy study_model(TracedModel traced, const StudiedPrompts& given,
                              const KnockOutSettings& settings, const CommonOptions& common,
                              nlohmann::json& texts) {
  const std::vector<TracePrompt> prompts = read_studied(traced, given, common, texts);
  std::vector<PromptKnockOuts> found;
  Progress progress("knocking out in " + traced.name, prompts.size(), " prompts");
  for (size_t n = 0; n < prompts.size(); ++n) {
    KnockOutSettings own = settings;
    own.seed = settings.seed + n;  // other random features for every prompt
    found.push_back(knock_out_top(traced, prompts[n], own));
    progress.set(n + 1);
  }
  return summarise_knock_outs(traced.title, std::move(found), common.seed);
}

std::string with_interval(const Estimate& estimate) {
  if (std::isnan(estimate.value)) return "-";
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", estimate.value, estimate.interval.low,
                     estimate.interval.high);
}

void print_study(const CommonOptions& common, const InterventionStudy& study) {
  for (const KnockOutSet set : kKnockOutSets) {
    const KnockOutSummary& summary = study.sets[static_cast<size_t>(set)];
    print_result(common, fmt::format("{:<24} {:<16} {:>5}  {:<22} {:<22} {:>7.3f} {:>7.0f} %  {}", study.name,
                                     set_name(set), summary.count, with_interval(summary.per_prompt),
                                     with_interval(summary.pooled), summary.direct, 100 * summary.same_sign,
                                     with_interval(summary.size)));
  }
}

void print_difference(const CommonOptions& common, const StudyDifference& difference) {
  for (const KnockOutSet set : kKnockOutSets) {
    const auto at = static_cast<size_t>(set);
    print_result(common,
                 fmt::format("{} less {}, {}: {} per prompt, {} pooled", difference.sparse, difference.dense,
                             set_name(set), with_interval(difference.per_prompt[at]),
                             with_interval(difference.pooled[at])));
  }
}

}  // namespace

nlohmann::json study_interventions(const StudiedPrompts& prompts, const std::vector<std::string>& models,
                                   const std::vector<std::string>& transcoders,
                                   const KnockOutSettings& settings, const CommonOptions& common,
                                   nlohmann::json& protocol) {
  if (prompts.task.empty()) {
    protocol["prompt"] = {{"prompts", std::filesystem::path(prompts.file).filename().string()},
                          {"sha256", sha256_of_file(prompts.file)}};
  } else {
    protocol["prompt"] = {{"task", prompts.task}};
  }
  protocol["bootstrap"] = "prompts, 2000 draws; the same ones for both models of a difference";
  protocol["knocked_out"] = {{"features", settings.features}, {"heads", settings.heads}};
  nlohmann::json result = {
      {"texts", nullptr}, {"models", nlohmann::json::array()}, {"comparison", nlohmann::json::array()}};
  std::vector<InterventionStudy> studies;
  for (size_t n = 0; n < models.size(); ++n) {
    TracedModel traced = open_traced_model(models[n], transcoders[n], common);
    protocol["device"] = traced.model.device().str();
    studies.push_back(study_model(std::move(traced), prompts, settings, common, result["texts"]));
    result["models"].push_back(to_json(studies.back()));
  }
  protocol["prompt"]["count"] = result["texts"].size();
  print_result(common,
               fmt::format("{:<24} {:<16} {:>5}  {:<22} {:<22} {:>7} {:>9}  {}", "model", "knocked out", "",
                           "rank, per prompt", "rank, pooled", "direct", "same sign", "size of the change"));
  for (const InterventionStudy& study : studies) print_study(common, study);
  for (size_t n = 1; n < studies.size(); ++n) {
    const StudyDifference difference = compare_studies(studies[0], studies[n], common.seed);
    print_difference(common, difference);
    result["comparison"].push_back(to_json(difference));
  }
  return result;
}

}  // namespace openwork
