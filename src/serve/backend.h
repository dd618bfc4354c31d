// Who answers: the models (model_backend.h), or in tests something that needs none.
#pragma once
#include <string>
#include <vector>

#include "serve/reply.h"
#include "serve/requests.h"
#include "serve/work.h"

namespace openwork::serve {

class Backend {
 public:
  virtual ~Backend() = default;

  // GET /api/models' "models", "tasks", "statistics", "classes" and "prompt_tokens".
  virtual nlohmann::json describe() const = 0;
  virtual std::vector<std::string> names() const = 0;  // of the models

  // Before long work is begun, on any thread: fails as bad input where the request names what is not there.
  virtual void check(const Request&) const {}

  // Both on each of the two threads that work (work_queue.h), which may answer at the same time: once before all else,
  // and for each request. The same request has the same answer.
  virtual void begin() {}
  virtual Answer answer(const Request& request, Work& work) = 0;
};

}  // namespace openwork::serve
