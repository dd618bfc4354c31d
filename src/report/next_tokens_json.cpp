#include "report/next_tokens_json.h"

namespace openwork {

nlohmann::json to_json(const NextToken& token, const std::string& text) {
  return {{"id", token.id}, {"token", text}, {"logit", token.logit}, {"probability", token.probability}};
}

nlohmann::json to_json(const NextToken& token, const NextToken& before, const std::string& text) {
  nlohmann::json json = to_json(token, text);
  json["logit_before"] = before.logit;
  json["probability_before"] = before.probability;
  return json;
}

nlohmann::json to_json(const LogitLens& lens, const TokenText& text) {
  nlohmann::json top = nlohmann::json::array();
  for (const auto& positions : lens.top) {
    nlohmann::json& by_position = top.emplace_back(nlohmann::json::array());
    for (const auto& tokens : positions) {
      nlohmann::json& row = by_position.emplace_back(nlohmann::json::array());
      for (const NextToken& token : tokens)
        row.push_back({{"id", token.id}, {"token", text(token.id)}, {"probability", token.probability}});
    }
  }
  return {{"points", lens.points},
          {"answer", {{"id", lens.answer}, {"token", text(lens.answer)}}},
          {"top", top},
          {"answer_probability", lens.answer_probability}};
}

}  // namespace openwork
