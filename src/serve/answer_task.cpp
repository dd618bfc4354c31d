// What heads are worth: to one prompt's answer, or to a task; and the smallest faithful set of them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analyze/circuits/ablation_effects.h"
#include "analyze/circuits/model_circuits.h"
#include "analyze/circuits/prompt_task.h"
#include "analyze/next_tokens.h"
#include "base/error.h"
#include "report/ablation_json.h"
#include "report/circuit_json.h"
#include "serve/answers.h"

namespace openwork::serve {
namespace {

int64_t read_token(const TracedModel& model, const std::string& text, const char* key) {
  const std::vector<int32_t> ids = model.tokenizer->encode(text);
  if (ids.size() == 1) return ids.front();
  fail_input(fmt::format("'{}' is {} tokens of {}", printable(text, 60), ids.size(), model.name), key,
             "give a text that is one token, with its space before it");
}

// The question in one model's tokens. The answer of a prompt, and what it is set against.
struct Asked {
  Task task;
  std::optional<int64_t> answer, wrong;
};

Asked ask_prompt(const TracedModel& model, const Question& question) {
  const std::vector<int64_t> ids = tokenise(model, *question.prompt);
  const std::vector<NextToken> likely = likely_tokens(next_logits(model.model, ids), 2);
  if (likely.size() < 2) fail_input("a vocabulary of one token", model.name, "ask a model that has a choice");
  const int64_t answer = question.answer ? read_token(model, *question.answer, "answer") : likely[0].id;
  const int64_t other = likely[0].id == answer ? likely[1].id : likely[0].id;
  const int64_t wrong = question.wrong ? read_token(model, *question.wrong, "wrong") : other;
  if (answer == wrong) fail_input("answer and wrong are one token", "request", "give two different ones");
  return {make_prompt_task(ids, answer, wrong), answer, wrong};
}

// Never a file: a request reads nothing of this machine.
Task draw_task(const TracedModel& model, const Question& question) {
  if (!is_built_in_task(question.task))
    fail_input(fmt::format("no task '{}'", printable(question.task, 60)), "\"task\" of the request",
               fmt::format("use {}", fmt::join(built_in_tasks(), ", ")));
  const TaskVocabulary vocabulary =
      make_vocabulary(model.model.config(), &*model.tokenizer, model.beginning, model.copy_begins);
  return make_task(question.task, vocabulary, question.prompts, question.seed);
}

Asked ask(const TracedModel& model, const Question& question) {
  if (question.prompt) return ask_prompt(model, question);
  return {draw_task(model, question), {}, {}};
}

void check_question(const ServedModels& models, const Question& question) {
  for (const TracedModel* model : models.select(question.models)) {
    if (!question.prompt) {
      draw_task(*model, question);
      continue;
    }
    tokenise(*model, *question.prompt);
    if (question.answer) read_token(*model, *question.answer, "answer");
    if (question.wrong) read_token(*model, *question.wrong, "wrong");
  }
}

nlohmann::json describe_token(const TracedModel& model, std::optional<int64_t> id) {
  if (!id) return nullptr;
  return {{"id", *id}, {"token", model.text_of(*id)}};
}

// A sweep that is kept nowhere and tells `work` of its passes, `all` interventions in sum.
class WatchedSweep {
 public:
  WatchedSweep(Work& work, std::string stage, int64_t all) : sweep_("", {}) {
    sweep_.advance = [&work, stage = std::move(stage), all = static_cast<uint64_t>(all),
                      done = uint64_t{0}](size_t more) mutable {
      done += more;
      work.tell(stage, std::min(done, all), all);
    };
  }
  Sweep& sweep() { return sweep_; }

 private:
  Sweep sweep_;
};

int64_t count_heads(const TracedModel& model) {
  return model.model.config().layers * model.model.config().heads;
}

}  // namespace

void check(const ServedModels& models, const ImportanceRequest& request) {
  check_question(models, request.question);
}

void check(const ServedModels& models, const CircuitRequest& request) {
  check_question(models, request.question);
}

Answer answer(const ServedModels& models, const ImportanceRequest& request, Work& work) {
  nlohmann::json list = nlohmann::json::array();
  for (const TracedModel* model : models.select(request.question.models)) {
    const Asked asked = ask(*model, request.question);
    WatchedSweep watched(work, model->name, count_heads(*model));
    const AblationSettings settings{.ablation = parse_ablation(request.question.ablation),
                                    .seed = request.question.seed};
    nlohmann::json json = to_json(measure_effects(model->model, asked.task, settings, watched.sweep()));
    json["name"] = model->name;
    json["metric"] = metric_name(asked.task.metric);
    json["answer"] = describe_token(*model, asked.answer);
    json["wrong"] = describe_token(*model, asked.wrong);
    list.push_back(std::move(json));
  }
  return json_answer({{"models", list}});
}

Answer answer(const ServedModels& models, const CircuitRequest& request, Work& work) {
  const Question& question = request.question;
  CircuitSettings settings;
  settings.ablation = parse_ablation(question.ablation);
  settings.threshold = request.threshold;
  settings.seed = question.seed;
  std::vector<ModelCircuits> circuits;
  std::vector<nlohmann::json> tokens;
  for (const TracedModel* model : models.select(question.models)) {
    const Asked asked = ask(*model, question);
    // Every head alone, then the first 0, 1, 2, ... of them kept.
    WatchedSweep watched(work, model->name, 2 * count_heads(*model) + 1);
    circuits.push_back(
        find_circuits(model->model, model->name, {asked.task}, {.settings = settings}, watched.sweep()));
    tokens.push_back(
        {{"answer", describe_token(*model, asked.answer)}, {"wrong", describe_token(*model, asked.wrong)}});
  }
  nlohmann::json json = circuits_json(circuits, settings);
  for (size_t n = 0; n < tokens.size(); ++n) json["models"][n].update(tokens[n]);
  json["task"] = question.prompt ? nlohmann::json() : nlohmann::json(question.task);
  json["prompt"] = question.prompt ? nlohmann::json(*question.prompt) : nlohmann::json();
  return json_answer(json);
}

}  // namespace openwork::serve
