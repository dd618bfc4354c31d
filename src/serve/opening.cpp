#include "serve/opening.h"

#include "base/base64.h"

namespace openwork::serve {

std::vector<PageRequest> first_requests(const std::string& prompt, const std::vector<std::string>& models) {
  std::vector<PageRequest> requests = {{"run", {{"prompt", prompt}, {"top", 20}}}};
  for (const std::string& model : models) {
    requests.push_back(
        {"patterns",
         {{"prompt", prompt}, {"model", model}, {"weights", "attention"}, {"cells", kGridCells}}});
  }
  return requests;
}

PageRequest importance_request(const std::string& prompt) {
  return {"importance", {{"prompt", prompt}}};
}

std::vector<PageRequest> later_requests(const std::string& prompt) {
  return {importance_request(prompt),
          {"statistics", nlohmann::json::object()},
          {"trace", {{"prompt", prompt}, {"max_nodes", 500}}},
          {"circuit", {{"prompt", prompt}}}};
}

// Answers are JSON already, and may be large: they are put in as they are.
Answer pack_opening(const nlohmann::json& api, const std::vector<PageAnswer>& answers) {
  std::string text = "{\"format\":1,\"api\":" + to_text(api) + ",\"answers\":[";
  for (size_t n = 0; n < answers.size(); ++n) {
    const auto& [request, answer] = answers[n];
    text += (n > 0 ? ",{\"route\":" : "{\"route\":") + to_text("/api/" + request.route) +
            ",\"request\":" + to_text(request.body);
    text += answer.type == kBinaryType ? ",\"binary\":\"" + encode_base64(*answer.body) + "\"}"
                                       : ",\"answer\":" + *answer.body + "}";
  }
  return {kJsonType, std::make_shared<const std::string>(text + "]}")};
}

}  // namespace openwork::serve
