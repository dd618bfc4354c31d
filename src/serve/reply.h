// What comes over HTTP and what goes back: a request without its sockets; an answer with its type; a reply with its
// status. Knows neither torch nor HTTP's library.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace openwork::serve {

inline constexpr const char* kJsonType = "application/json";
inline constexpr const char* kBinaryType = "application/octet-stream";

struct Answer {
  std::string type;
  std::shared_ptr<const std::string> body;
};

// A request as those behind HTTP see it.
struct ServiceRequest {
  std::string method, path, body = {};
  std::string from = {}, point = {};  // of the address: /api/training?from=&point=
  std::string have = {};              // If-None-Match
  bool takes_gzip = false;
};

class Job;

struct Reply {
  int status = 200;
  Answer answer;
  std::map<std::string, std::string> headers = {};
  std::shared_ptr<Job> stream = nullptr;  // its events are the body instead
};

using Handle = std::function<Reply(const ServiceRequest&)>;

// Bytes that are not UTF-8 (a token may be half a character) become replacement characters; NaN becomes null.
inline std::string to_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

inline Answer json_answer(const nlohmann::json& json) {
  return {kJsonType, std::make_shared<const std::string>(to_text(json))};
}

inline Reply json_reply(int status, const nlohmann::json& json) {
  return {.status = status, .answer = json_answer(json)};
}

// {"error": "WHAT; WHERE; WHAT TO DO"}
inline Reply error_reply(int status, std::string_view line) {
  return json_reply(status, {{"error", line}});
}

}  // namespace openwork::serve
