// The server without its sockets: a request in, a reply out. Owns the threads on which all work is done, the jobs, and
// the answers given lately. Safe from many threads.
//   ModelBackend backend(std::move(models));
//   Service service(backend, settings);
//   service.warm_up();
//   Reply reply = service.handle({.method = "POST", .path = "/api/run", .body = R"({"prompt": "Hello"})"});
#pragma once
#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "serve/answer_cache.h"
#include "serve/backend.h"
#include "serve/jobs.h"
#include "serve/opening.h"
#include "serve/page_files.h"
#include "serve/routes.h"
#include "serve/training_log.h"
#include "serve/work_queue.h"

namespace openwork::serve {

// What the page opens on: both built-in models answer " dog", and neither does once one head, L5H6, is off.
inline constexpr const char* kBuiltInPrompt =
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy";

struct ServiceSettings {
  std::string program = "openwork";     // and its version
  std::string prompt = kBuiltInPrompt;  // what the page opens on
  std::string run_folder = {};          // whose metrics are shown; empty: none
  size_t body_bytes = 1 << 20;          // of a request
  size_t quick_waiting = 256, long_waiting = 8;
  std::chrono::milliseconds quick_longest{60000};  // waiting and working
  size_t cache_bytes = 64 << 20;
  JobLimits jobs = {};
};

// GET /api/models' answer, of a server without a training run.
nlohmann::json describe_api(const Backend& backend, const ServiceSettings& settings);

class Service {
 public:
  Service(Backend& backend, ServiceSettings settings);  // the backend must outlive it
  ~Service();

  // Begins to compute what the page opens on, then what is asked next there; returns at once.
  void warm_up();

  Reply handle(const ServiceRequest& request);

  // Long work is cancelled, quick work finished, whatever comes refused.
  void stop();

  const ServiceSettings& settings() const { return settings_; }

 private:
  Reply dispatch(const FoundRoute& found, const ServiceRequest& request);
  nlohmann::json describe() const;  // GET /api/models' answer
  Reply answer_opening();
  Reply answer_quick(const ParsedRequest& request);
  Reply answer_long(const Route& route, const std::string& body);
  Reply answer_job(RouteKind kind, const std::string& id);
  Reply answer_training(const ServiceRequest& request) const;
  Answer compute(const ParsedRequest& parsed, Work& work);  // out of the cache, or into it
  void warm_next(std::vector<PageRequest> requests);        // the first now, the others once it has ended

  Backend& backend_;
  const ServiceSettings settings_;
  const PageFiles files_;
  std::optional<TrainingLog> training_;
  AnswerCache cache_;
  std::atomic<bool> stopping_{false};
  WorkQueue queue_;  // ends before what it works with
  Jobs jobs_;
};

}  // namespace openwork::serve
