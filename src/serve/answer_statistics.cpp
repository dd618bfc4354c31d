// Statistics and classes of every head, on one prompt or on the program's sample prompts.
#include "analyze/heads/head_statistics.h"
#include "analyze/heads/model_comparison.h"
#include "report/statistics_tables.h"
#include "serve/answers.h"
#include "text/prompt_file.h"

namespace openwork::serve {
namespace {

ModelStatistics measure(const TracedModel& model, const std::vector<std::string>& texts, Work& work) {
  std::vector<std::vector<int64_t>> prompts;
  for (const std::string& text : texts) prompts.push_back(tokenise(model, text));
  StatisticsOptions options;
  options.beginning = model.beginning;
  options.random_from = ordinary_tokens(*model.tokenizer, model.model.config().vocabulary);
  options.interactions = false;  // the slowest part, and no view shows it
  uint64_t done = 0;
  work.tell(model.name, 0, prompts.size());
  ModelStatistics result =
      measure_heads(model.model, prompts, options, [&] { work.tell(model.name, ++done, prompts.size()); });
  result.name = model.name;
  return result;
}

}  // namespace

void check(const ServedModels& models, const StatisticsRequest& request) {
  for (const TracedModel* model : models.select(request.models))
    if (request.prompt) tokenise(*model, *request.prompt);
}

Answer answer(const ServedModels& models, const StatisticsRequest& request, Work& work) {
  const std::vector<std::string> texts =
      request.prompt ? std::vector<std::string>{*request.prompt} : sample_prompts();
  StatisticsReport report;
  for (const TracedModel* model : models.select(request.models))
    add_model(report, measure(*model, texts, work), StatisticsOptions{}.seed);
  nlohmann::json json = to_json(report);
  json["prompt"] = request.prompt ? nlohmann::json(*request.prompt) : nlohmann::json();
  return json_answer(json);
}

}  // namespace openwork::serve
