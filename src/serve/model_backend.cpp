#include "serve/model_backend.h"

#include <ATen/Parallel.h>

#include "analyze/circuits/task.h"
#include "analyze/heads/head_classes.h"
#include "base/parallel.h"
#include "serve/answers.h"

namespace openwork::serve {
namespace {

nlohmann::json list_statistics() {
  nlohmann::json list = nlohmann::json::array();
  for (const StatisticName& name : kStatistics)
    list.push_back({{"key", name.key}, {"title", name.title}, {"meaning", name.meaning}});
  return list;
}

nlohmann::json list_classes() {
  nlohmann::json list = nlohmann::json::array();
  for (const ClassRule& rule : kClassRules)
    list.push_back({{"name", rule.name}, {"measure", rule.measure}, {"threshold", rule.threshold}});
  return list;
}

int64_t shortest_context(const ServedModels& models) {
  int64_t context = models.all().front().model.config().context;
  for (const TracedModel& model : models.all()) context = std::min(context, model.model.config().context);
  return context;
}

}  // namespace

nlohmann::json ModelBackend::describe() const {
  nlohmann::json list = nlohmann::json::array();
  for (const TracedModel& model : models_.all()) list.push_back(describe_served(model));
  return {{"models", list},
          {"tasks", built_in_tasks()},
          {"statistics", list_statistics()},
          {"classes", list_classes()},
          {"prompt_tokens", shortest_context(models_)}};
}

std::vector<std::string> ModelBackend::names() const {
  std::vector<std::string> names;
  for (const TracedModel& model : models_.all()) names.push_back(model.name);
  return names;
}

void ModelBackend::begin() {
  at::set_num_threads(thread_count());  // torch's number is each thread's own
}

void ModelBackend::check(const Request& request) const {
  check_request(models_, request);
}

Answer ModelBackend::answer(const Request& request, Work& work) {
  return answer_request(models_, request, work);
}

}  // namespace openwork::serve
