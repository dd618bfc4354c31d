// What may be asked, as plain data: one struct per POST route (docs/serve.md), read strictly from untrusted bytes.
// Knows no torch and no model: whether heads, tokens and models are there is asked where they are used.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace openwork::serve {

// In all of them: `models` are the names asked about; none: all.
struct RunRequest {
  std::vector<std::string> models;
  std::string prompt;
  int64_t top = 20;
};

struct PatternsRequest {
  std::string prompt, model;
  std::vector<std::string> heads;     // none: all
  std::string weights = "attention";  // or value
  std::string format = "u8";          // or f32
  int64_t cells = 0;                  // along the edge, at most; 0, where nothing is said: one per token
};

struct StatisticsRequest {
  std::vector<std::string> models;
  std::optional<std::string> prompt;  // none: the program's sample prompts
};

struct ScatterRequest {
  std::vector<std::string> models;
  std::string prompt;
  std::vector<std::string> heads;  // none: the sharpest
};

struct SwitchRequest {
  std::vector<std::string> models;
  std::string prompt;
  std::map<std::string, std::vector<std::string>> off;  // by model
  std::optional<std::string> corrupt;                   // whose outputs stand in; none: zero
  int64_t top = 20;
};

struct LensRequest {
  std::string prompt, model;
  int64_t top = 3;
};

// A prompt with the answer that is asked about, or a task.
struct Question {
  std::vector<std::string> models;
  std::optional<std::string> prompt, answer,
      wrong;                      // answer and wrong: none means most likely, and next after it
  std::string task;               // empty: the prompt
  int64_t prompts = 24;           // of a task
  std::string ablation = "mean";  // of a prompt: zero
  uint64_t seed = 0;
};

struct ImportanceRequest {
  Question question;
};

struct CircuitRequest {
  Question question;
  double threshold = 0.9;
};

struct TraceRequest {
  std::vector<std::string> models;
  std::string prompt;
  std::optional<std::string> target, from, to;
  int64_t max_nodes = 500, max_links = 3000;
  double explain = 0.8;
};

using Request = std::variant<RunRequest, PatternsRequest, StatisticsRequest, ScatterRequest, SwitchRequest,
                             LensRequest, ImportanceRequest, CircuitRequest, TraceRequest>;

struct ParsedRequest {
  Request request;
  std::string key;  // equal for requests that mean the same; the route's name stands in it
};

inline constexpr int64_t kMostNodes = 4000;  // of a trace
inline constexpr size_t kMostNames = 65536;  // heads in one request

// `route` is run, patterns, ...: the last part of the path. Fails as bad input where the body is not right.
ParsedRequest parse_request(std::string_view route, std::string_view body);
bool takes_requests(std::string_view route);

}  // namespace openwork::serve
