// The table of routes: docs/openapi.json describes each of them, and a test holds the two together.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace openwork::serve {

enum class RouteKind {
  kPage,     // index.html
  kAsset,    // a file of the page
  kModels,   // what is served
  kOpening,  // that, and all the first view is drawn from
  kQuick,    // POST: the answer itself
  kLong,     // POST: a job, or its result where that is known
  kJob,      // how far it is
  kCancel,
  kEvents,    // the job as a stream
  kTraining,  // metrics of a run
};

struct Route {
  const char* method;
  const char* path;  // {x} stands for one part
  RouteKind kind;
};

inline constexpr std::array<Route, 17> kRoutes = {{
    {"GET", "/", RouteKind::kPage},
    {"GET", "/assets/{name}", RouteKind::kAsset},
    {"GET", "/api/models", RouteKind::kModels},
    {"GET", "/api/opening", RouteKind::kOpening},
    {"POST", "/api/run", RouteKind::kQuick},
    {"POST", "/api/patterns", RouteKind::kQuick},
    {"POST", "/api/scatter", RouteKind::kQuick},
    {"POST", "/api/switch", RouteKind::kQuick},
    {"POST", "/api/lens", RouteKind::kQuick},
    {"POST", "/api/statistics", RouteKind::kLong},
    {"POST", "/api/importance", RouteKind::kLong},
    {"POST", "/api/circuit", RouteKind::kLong},
    {"POST", "/api/trace", RouteKind::kLong},
    {"GET", "/api/jobs/{id}", RouteKind::kJob},
    {"DELETE", "/api/jobs/{id}", RouteKind::kCancel},
    {"GET", "/api/jobs/{id}/events", RouteKind::kEvents},
    {"GET", "/api/training", RouteKind::kTraining},
}};

struct FoundRoute {
  const Route* route = nullptr;  // null: no such path, or not this method
  bool path_known = false;
  std::string part;  // what {x} stands for
};
FoundRoute find_route(std::string_view method, std::string_view path);

// The last part of a POST route's path: run, patterns, ...
std::string_view request_name(const Route& route);

}  // namespace openwork::serve
