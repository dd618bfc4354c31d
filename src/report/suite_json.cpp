#include "report/suite_json.h"

#include "io/interval_json.h"

namespace openwork {
namespace {

nlohmann::json suite_bin_json(const SuiteBinResult& bin) {
  nlohmann::json json = {{"bin", bin.name},
                         {"mean", bin.mean},
                         {"interval", interval_json(bin.interval)},
                         {"prompts", bin.scores.size()}};
  if (bin.at > 0) json["at"] = bin.at;
  return json;
}

}  // namespace

nlohmann::json to_json(const SuiteModel& model) {
  nlohmann::json tests = nlohmann::json::array();
  for (const SuiteTestResult& test : model.tests) {
    nlohmann::json json = {{"test", test.name}, {"about", test.about}};
    if (test.left_out.empty()) {
      nlohmann::json bins = nlohmann::json::array();
      for (const SuiteBinResult& bin : test.bins) bins.push_back(suite_bin_json(bin));
      json.update({{"unit", test.is_accuracy ? "accuracy" : "nats per token"}, {"bins", bins}});
      if (test.is_accuracy) json["chance"] = test.chance;
      if (!test.axis.empty()) json["axis"] = test.axis;
    } else {
      json["left_out"] = test.left_out;
    }
    tests.push_back(std::move(json));
  }
  return {{"name", model.name}, {"tests", tests}};
}

nlohmann::json to_json(const SuiteDifference& difference) {
  return {{"model", difference.model},
          {"test", difference.test},
          {"bin", difference.bin},
          {"difference", difference.difference},
          {"interval", interval_json(difference.interval)},
          {"p", difference.p},
          {"p_holm", difference.p_holm}};
}

}  // namespace openwork
