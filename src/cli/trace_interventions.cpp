#include "cli/trace_interventions.h"

#include <filesystem>

#include "analyze/traced_task.h"
#include "io/sha256.h"
#include "report/trace_interventions.h"
#include "report/trace_prompts_text.h"
#include "shell/task_options.h"

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
  read = trace_prompts_of(task, traced);
  for (const TracePrompt& prompt : read) texts.push_back(prompt.text);
  return read;
}

}  // namespace

nlohmann::json study_interventions(const StudiedPrompts& prompts, const std::vector<std::string>& models,
                                   const std::vector<FeatureFolder>& transcoders,
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
    TracedModel traced = open_traced_model(models, n, transcoders, common);
    protocol["device"] = traced.model.device().str();
    studies.push_back(
        study_prompts(traced, read_studied(traced, prompts, common, result["texts"]), settings));
    result["models"].push_back(to_json(studies.back()));
  }
  protocol["prompt"]["count"] = result["texts"].size();
  print_result(common, format_studies_header());
  for (const InterventionStudy& study : studies) print_results(common, format_study(study));
  print_result(common, format_forecasts_header());
  for (const InterventionStudy& study : studies) print_results(common, format_forecasts(study));
  for (size_t n = 1; n < studies.size(); ++n) {
    const StudyDifference difference = compare_studies(studies[0], studies[n], common.seed);
    print_results(common, format_difference(difference));
    result["comparison"].push_back(to_json(difference));
  }
  return result;
}

}  // namespace openwork
