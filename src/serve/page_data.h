// The viewer without a server: what it would ask for, asked now, as the JSON that a page carries (docs/serve.md, The page
// in a file). The page looks answers up by route and request instead of asking.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/service.h"

namespace openwork::serve {

// An answer that is there already: of statistics, a circuit, a trace.
struct KnownAnswer {
  std::string route;  // statistics, circuit, trace
  nlohmann::json request, answer;
};

// {"format": 1, "api": as GET /api/models, "answers": [{"route", "request", "answer" or "binary"}]}: the prompt run, its
// patterns, lenses, scatter, what heads are worth and what becomes of it without the strongest, and what is known. What a
// model cannot answer is left out.
nlohmann::json record_page(Backend& backend, const ServiceSettings& settings,
                           const std::vector<KnownAnswer>& known);

}  // namespace openwork::serve
