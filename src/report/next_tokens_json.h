// What a model would say next, and what it would say early, as JSON; token texts are the caller's to know.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "analyze/logit_lens.h"

namespace openwork {

using TokenText = std::function<std::string(int64_t id)>;

nlohmann::json to_json(const NextToken& token,
                       const std::string& text);  // {"id", "token", "logit", "probability"}
// The same, and "logit_before", "probability_before".
nlohmann::json to_json(const NextToken& token, const NextToken& before, const std::string& text);

// {"points", "answer": {"id", "token"}, "top": [[[{"id", "token", "probability"}]]], "answer_probability": [[..]]},
// by point and position.
nlohmann::json to_json(const LogitLens& lens, const TokenText& text);

}  // namespace openwork
