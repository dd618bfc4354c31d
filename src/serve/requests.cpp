#include "serve/requests.h"

#include "base/error.h"
#include "io/json.h"
#include "serve/fields.h"

namespace openwork::serve {
namespace {

constexpr size_t kMostModels = 64;
constexpr Bounds<int64_t> kTop{1, 200};

RunRequest read_run(Fields& fields) {
  return {.models = fields.texts("models", kMostModels),
          .prompt = fields.text("prompt"),
          .top = fields.integer("top", 20, kTop)};
}

PatternsRequest read_patterns(Fields& fields) {
  return {.prompt = fields.text("prompt"),
          .model = fields.text("model"),
          .heads = fields.texts("heads", kMostNames),
          .weights = fields.choice("weights", {"attention", "value"}),
          .format = fields.choice("format", {"u8", "f32"}),
          .cells = fields.integer("cells", 0, {1, 1 << 20})};
}

StatisticsRequest read_statistics(Fields& fields) {
  return {.models = fields.texts("models", kMostModels), .prompt = fields.optional_text("prompt")};
}

ScatterRequest read_scatter(Fields& fields) {
  return {.models = fields.texts("models", kMostModels),
          .prompt = fields.text("prompt"),
          .heads = fields.texts("heads", 12)};
}

SwitchRequest read_switch(Fields& fields) {
  return {.models = fields.texts("models", kMostModels),
          .prompt = fields.text("prompt"),
          .off = fields.lists("off", kMostNames),
          .corrupt = fields.optional_text("corrupt"),
          .top = fields.integer("top", 20, kTop)};
}

LensRequest read_lens_request(Fields& fields) {
  return {.prompt = fields.text("prompt"),
          .model = fields.text("model"),
          .top = fields.integer("top", 3, {1, 10})};
}

// A prompt has no corrupt twin: what a head is replaced by is zero.
Question read_question(Fields& fields) {
  Question question;
  question.models = fields.texts("models", kMostModels);
  const bool of_task = fields.has("task");
  if (of_task == fields.has("prompt"))
    fail_input("a prompt or a task is wanted, and not both", "request", "give \"prompt\" or \"task\"");
  if (of_task) {
    question.task = fields.text("task");
    question.prompts = fields.integer("prompts", question.prompts, {1, 200});
    question.ablation = fields.choice("ablation", {"mean", "zero", "interchange"});
    question.seed = static_cast<uint64_t>(fields.integer("seed", 0, {0, INT32_MAX}));
  } else {
    question.prompt = fields.text("prompt");
    question.answer = fields.optional_text("answer");
    question.wrong = fields.optional_text("wrong");
    question.ablation = fields.choice("ablation", {"zero"});
  }
  return question;
}

ImportanceRequest read_importance(Fields& fields) {
  return {.question = read_question(fields)};
}

CircuitRequest read_circuit(Fields& fields) {
  return {.question = read_question(fields), .threshold = fields.number("threshold", 0.9, {0.01, 1})};
}

TraceRequest read_trace(Fields& fields) {
  return {.models = fields.texts("models", kMostModels),
          .prompt = fields.text("prompt"),
          .target = fields.optional_text("target"),
          .from = fields.position("from"),
          .to = fields.position("to"),
          .max_nodes = fields.integer("max_nodes", 500, {1, kMostNodes}),
          .max_links = fields.integer("max_links", 3000, {1, 100000}),
          .explain = fields.number("explain", 0.8, {0.01, 1})};
}

using Read = Request (*)(Fields&);
template <auto read>
Request read_as(Fields& fields) {
  return read(fields);
}

const std::map<std::string_view, Read>& readers() {
  static const std::map<std::string_view, Read> table = {
      {"run", read_as<read_run>},
      {"patterns", read_as<read_patterns>},
      {"statistics", read_as<read_statistics>},
      {"scatter", read_as<read_scatter>},
      {"switch", read_as<read_switch>},
      {"lens", read_as<read_lens_request>},
      {"importance", read_as<read_importance>},
      {"circuit", read_as<read_circuit>},
      {"trace", read_as<read_trace>},
  };
  return table;
}

}  // namespace

bool takes_requests(std::string_view route) {
  return readers().contains(route);
}

ParsedRequest parse_request(std::string_view route, std::string_view body) {
  const nlohmann::json json = parse_json(body, "request", DuplicateKeys::kRefuse, "send one JSON object");
  Fields fields(json);
  Request request = readers().at(route)(fields);
  return {std::move(request), std::string(route) + " " + fields.finish()};
}

}  // namespace openwork::serve
