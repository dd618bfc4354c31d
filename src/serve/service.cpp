#include "serve/service.h"

#include <fmt/format.h>

#include <charconv>
#include <future>

#include "base/error.h"

namespace openwork::serve {
namespace {

// A library's message may be one line of many.
std::string first_line(const std::exception& error) {
  const std::string_view text = error.what();
  return printable(text.substr(0, text.find('\n')), 1000);
}

Reply reply_error(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  return error_reply(own && own->kind() == Error::Kind::kInput ? 400 : 500, first_line(error));
}

Reply busy_reply(const char* what) {
  Reply reply = error_reply(503, fmt::format("{}; server; ask again in a moment", what));
  reply.headers["Retry-After"] = "1";
  return reply;
}

ParsedRequest parse_page_request(const PageRequest& request) {
  return parse_request(request.route, to_text(request.body));
}

// A number in an address; 0 where nothing is said, none where it is no number.
std::optional<uint64_t> read_count(const std::string& text) {
  uint64_t count = 0;
  if (text.empty()) return count;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || next != text.data() + text.size()) return std::nullopt;
  return count;
}

}  // namespace

nlohmann::json describe_api(const Backend& backend, const ServiceSettings& settings) {
  nlohmann::json json = backend.describe();
  json["program"] = settings.program;
  json["embedded"] = false;
  json["prompt"] = settings.prompt;
  json["limits"] = {{"prompt_tokens", json["prompt_tokens"]},
                    {"body_bytes", settings.body_bytes},
                    {"all_head_cells", kGridCells},
                    {"max_nodes", kMostNodes}};
  json.erase("prompt_tokens");
  json["training"] = nullptr;
  return json;
}

Service::Service(Backend& backend, ServiceSettings settings)
    : backend_(backend),
      settings_(std::move(settings)),
      cache_(settings_.cache_bytes),
      queue_(settings_.quick_waiting, settings_.long_waiting, [this] { backend_.begin(); }),
      jobs_(queue_, settings_.jobs) {
  if (!settings_.run_folder.empty()) training_.emplace(settings_.run_folder);
}

Service::~Service() {
  stop();
}

void Service::stop() {
  stopping_ = true;
  jobs_.cancel_all();
  queue_.stop();
}

void Service::warm_up() {
  for (const PageRequest& request : first_requests(settings_.prompt, backend_.names())) {
    queue_.add_quick([this, parsed = parse_page_request(request)] {
      try {
        UnwatchedWork work;
        compute(parsed, work);
      } catch (const std::exception&) {  // a model that cannot do this says so when it is asked
      }
    });
  }
  warm_next(later_requests(settings_.prompt));
}

// As jobs, so that who asks for the same meanwhile joins it; one at a time, so that others come between them. They end
// where nobody looks for too long, like all jobs.
void Service::warm_next(std::vector<PageRequest> requests) {
  if (requests.empty()) return;
  const ParsedRequest parsed = parse_page_request(requests.front());
  requests.erase(requests.begin());
  jobs_.begin(parsed.key, [this, parsed, requests](Work& work) {
    try {
      Answer answer = compute(parsed, work);
      warm_next(requests);
      return answer;
    } catch (const std::exception&) {
      warm_next(requests);
      throw;
    }
  });
}

Answer Service::compute(const ParsedRequest& parsed, Work& work) {
  if (const std::optional<Answer> known = cache_.find(parsed.key)) return *known;
  Answer answer = backend_.answer(parsed.request, work);
  cache_.add(parsed.key, answer);
  return answer;
}

Reply Service::handle(const ServiceRequest& request) {
  const FoundRoute found = find_route(request.method, request.path);
  if (!found.path_known) return error_reply(404, "no such route; address; see docs/serve.md");
  if (found.route == nullptr) return error_reply(405, "not this method; request; see docs/serve.md");
  if (stopping_) return busy_reply("the server is stopping");
  try {
    return dispatch(found, request);
  } catch (const std::exception& error) {
    return reply_error(error);
  }
}

Reply Service::dispatch(const FoundRoute& found, const ServiceRequest& request) {
  switch (found.route->kind) {
    case RouteKind::kPage:
      return files_.reply({"index.html", request.have, request.takes_gzip});
    case RouteKind::kAsset:
      return files_.reply({"assets/" + found.part, request.have, request.takes_gzip});
    case RouteKind::kModels:
      return json_reply(200, describe());
    case RouteKind::kOpening:
      return answer_opening();
    case RouteKind::kQuick:
      return answer_quick(parse_request(request_name(*found.route), request.body));
    case RouteKind::kLong:
      return answer_long(*found.route, request.body);
    case RouteKind::kTraining:
      return answer_training(request);
    case RouteKind::kJob:
    case RouteKind::kCancel:
    case RouteKind::kEvents:
      break;
  }
  return answer_job(found.route->kind, found.part);
}

nlohmann::json Service::describe() const {
  nlohmann::json json = describe_api(backend_, settings_);
  if (training_) json["training"] = {{"name", training_->name()}};
  return json;
}

// What cannot be answered now is left out: the page asks for it by itself, and is told why.
Reply Service::answer_opening() {
  std::vector<PageAnswer> answers;
  for (const PageRequest& request : first_requests(settings_.prompt, backend_.names())) {
    const Reply reply = answer_quick(parse_page_request(request));
    if (reply.status == 200) answers.push_back({request, reply.answer});
  }
  const PageRequest importance = importance_request(settings_.prompt);
  if (const std::optional<Answer> known = cache_.find(parse_page_request(importance).key))
    answers.push_back({importance, *known});
  return {.answer = pack_opening(describe(), answers)};
}

Reply Service::answer_quick(const ParsedRequest& request) {
  if (const std::optional<Answer> known = cache_.find(request.key)) return {.answer = *known};
  auto promise = std::make_shared<std::promise<Answer>>();
  auto abandoned = std::make_shared<std::atomic<bool>>(false);
  std::future<Answer> future = promise->get_future();
  const bool taken = queue_.add_quick([this, request, promise, abandoned] {
    if (*abandoned) return;
    try {
      UnwatchedWork work;
      promise->set_value(compute(request, work));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  if (!taken) return busy_reply("too much is waiting");
  if (future.wait_for(settings_.quick_longest) != std::future_status::ready) {
    *abandoned = true;
    return busy_reply("it took too long");
  }
  try {
    return {.answer = future.get()};
  } catch (const std::exception& error) {
    return reply_error(error);
  }
}

Reply Service::answer_long(const Route& route, const std::string& body) {
  auto parsed = std::make_shared<const ParsedRequest>(parse_request(request_name(route), body));
  if (const std::optional<Answer> known = cache_.find(parsed->key))
    return {.answer = {kJsonType, std::make_shared<const std::string>("{\"result\":" + *known->body + "}")}};
  backend_.check(parsed->request);
  const std::shared_ptr<Job> job =
      jobs_.begin(parsed->key, [this, parsed](Work& work) { return compute(*parsed, work); });
  if (!job) return busy_reply("too much is waiting");
  return json_reply(202, {{"job", job->id()}});
}

Reply Service::answer_job(RouteKind kind, const std::string& id) {
  const std::shared_ptr<Job> job = jobs_.find(id);
  if (!job) return error_reply(404, "no such job; address; it may have ended a while ago: ask anew");
  if (kind == RouteKind::kEvents) return {.answer = {"text/event-stream", nullptr}, .stream = job};
  if (kind == RouteKind::kCancel) {
    job->leave();
    return json_reply(200, {{"job", id}, {"state", state_name(job->look().state)}});
  }
  return json_reply(200, describe_job(*job, job->look()));
}

Reply Service::answer_training(const ServiceRequest& request) const {
  if (!training_) return error_reply(404, "no training run; server; start it with --run DIR");
  const std::optional<uint64_t> from = read_count(request.from), point = read_count(request.point);
  if (!from) return error_reply(400, "not a number of bytes; from; give the last answer's \"next\"");
  if (!point) return error_reply(400, "not a number; point; give 1 to the last answer's \"points\"");
  return json_reply(200, training_->read(*from, *point));
}

}  // namespace openwork::serve
