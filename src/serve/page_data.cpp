#include "serve/page_data.h"

#include <algorithm>

#include "base/error.h"
#include "report/html.h"

namespace openwork::serve {
namespace {

class Recorder {
 public:
  explicit Recorder(Backend& backend) : backend_(backend) {}

  // The answer too, for questions that follow from it; null where there is none.
  nlohmann::json record(const std::string& name, const nlohmann::json& request) {
    Answer answer;
    try {
      UnwatchedWork work;
      answer = backend_.answer(parse_request(name, to_text(request)).request, work);
    } catch (const Error&) {
      return nullptr;
    }
    nlohmann::json entry = {{"route", "/api/" + name}, {"request", request}};
    nlohmann::json json;
    if (answer.type == kBinaryType) {
      entry["binary"] = encode_base64(*answer.body);
    } else {
      json = nlohmann::json::parse(*answer.body);
      entry["answer"] = json;
    }
    answers_.push_back(std::move(entry));
    return json;
  }

  void add(const KnownAnswer& known) {
    answers_.push_back(
        {{"route", "/api/" + known.route}, {"request", known.request}, {"answer", known.answer}});
  }

  nlohmann::json take() { return std::move(answers_); }

 private:
  Backend& backend_;
  nlohmann::json answers_ = nlohmann::json::array();
};

// The head with the largest effect.
std::string strongest_head(const nlohmann::json& effects) {
  std::string name;
  double largest = 0;
  for (size_t layer = 0; layer < effects.size(); ++layer) {
    for (size_t head = 0; head < effects[layer].size(); ++head) {
      const double effect = effects[layer][head].get<double>();
      if (name.empty() || effect > largest)
        largest = effect, name = "L" + std::to_string(layer) + "H" + std::to_string(head);
    }
  }
  return name;
}

// Each model's strongest head off, alone and with the others'.
void record_switches(Recorder& recorder, const std::string& prompt, const nlohmann::json& importance) {
  nlohmann::json all = nlohmann::json::object();
  for (const nlohmann::json& model : importance.value("models", nlohmann::json::array())) {
    const nlohmann::json off = {{model["name"], {strongest_head(model["effects"])}}};
    recorder.record("switch", {{"prompt", prompt}, {"off", off}});
    all.update(off);
  }
  if (all.size() > 1) recorder.record("switch", {{"prompt", prompt}, {"off", all}});
}

}  // namespace

nlohmann::json record_page(Backend& backend, const ServiceSettings& settings,
                           const std::vector<KnownAnswer>& known) {
  const nlohmann::json prompt = {{"prompt", settings.prompt}};
  Recorder recorder(backend);
  recorder.record("run", prompt);
  for (const std::string& name : backend.names()) {
    nlohmann::json one = prompt;
    one["model"] = name;
    recorder.record("lens", one);
    one["cells"] = kGridCells;
    recorder.record("patterns", one);
    one["weights"] = "value";
    recorder.record("patterns", one);
  }
  recorder.record("scatter", prompt);
  record_switches(recorder, settings.prompt, recorder.record("importance", prompt));
  nlohmann::json api = describe_api(backend, settings), tasks = nlohmann::json::array();
  for (const KnownAnswer& one : known) {
    recorder.add(one);
    if (one.request.contains("task")) tasks.push_back(one.request["task"]);
  }
  api["embedded"] = true;
  api["tasks"] = tasks;
  return {{"format", 1}, {"api", api}, {"answers", recorder.take()}};
}

}  // namespace openwork::serve
