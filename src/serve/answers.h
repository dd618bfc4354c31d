// A request in, its answer out: what each route computes, by the functions of analyze/ and in the words of report/.
// No HTTP here, and nothing is remembered: the same request has the same answer.
//   Answer answer = answer_request(models, parse_request("run", body).request, work);
#pragma once
#include "serve/reply.h"
#include "serve/requests.h"
#include "serve/served_models.h"
#include "serve/work.h"

namespace openwork::serve {

inline constexpr int64_t kMostPatternBytes = 32 << 20;  // of one answer of patterns

Answer answer(const ServedModels& models, const RunRequest& request, Work& work);
Answer answer(const ServedModels& models, const PatternsRequest& request, Work& work);
Answer answer(const ServedModels& models, const StatisticsRequest& request, Work& work);
Answer answer(const ServedModels& models, const ScatterRequest& request, Work& work);
Answer answer(const ServedModels& models, const SwitchRequest& request, Work& work);
Answer answer(const ServedModels& models, const LensRequest& request, Work& work);
Answer answer(const ServedModels& models, const ImportanceRequest& request, Work& work);
Answer answer(const ServedModels& models, const CircuitRequest& request, Work& work);
Answer answer(const ServedModels& models, const TraceRequest& request, Work& work);

// Of long work, without a pass of a model: what would be refused on the way is refused before it. Models that are not
// there, tasks, prompts too long, targets that are not one token.
void check(const ServedModels& models, const StatisticsRequest& request);
void check(const ServedModels& models, const ImportanceRequest& request);
void check(const ServedModels& models, const CircuitRequest& request);
void check(const ServedModels& models, const TraceRequest& request);

inline void check_request(const ServedModels& models, const Request& request) {
  std::visit(
      [&](const auto& one) {
        if constexpr (requires { check(models, one); }) check(models, one);
      },
      request);
}

inline Answer answer_request(const ServedModels& models, const Request& request, Work& work) {
  return std::visit([&](const auto& one) { return answer(models, one, work); }, request);
}

}  // namespace openwork::serve
