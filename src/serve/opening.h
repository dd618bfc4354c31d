// What the page opens on, in one answer (GET /api/opening), so that its first view waits for one request alone: what is
// served, the built-in prompt's run and every head's patterns, and what heads are worth where that is known by now.
// The form is that of the page in a file (docs/serve.md).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/reply.h"

namespace openwork::serve {

inline constexpr int64_t kGridCells = 96;  // along a head's edge, where all heads are shown

// A question in the page's own words: a page finds an answer by the very request that it would send.
struct PageRequest {
  std::string route;  // run, patterns, ...
  nlohmann::json body;
};

// What the first view is drawn from: quick work.
std::vector<PageRequest> first_requests(const std::string& prompt, const std::vector<std::string>& models);

// What is asked next on that prompt: long work, in the order in which a visitor comes by it.
PageRequest importance_request(const std::string& prompt);
std::vector<PageRequest> later_requests(const std::string& prompt);

struct PageAnswer {
  PageRequest request;
  Answer answer;
};

// {"format": 1, "api": ..., "answers": [{"route", "request", "answer" or "binary"}]}
Answer pack_opening(const nlohmann::json& api, const std::vector<PageAnswer>& answers);

}  // namespace openwork::serve
