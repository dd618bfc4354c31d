#include "serve/routes.h"

namespace openwork::serve {
namespace {

// What {x} of the pattern stands for in the path; nothing where the path is another. A part is not empty.
std::optional<std::string> match(std::string_view pattern, std::string_view path) {
  const size_t open = pattern.find('{');
  if (open == std::string_view::npos) return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, open), after = pattern.substr(pattern.find('}') + 1);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
    return std::nullopt;
  const std::string_view part = path.substr(before.size(), path.size() - before.size() - after.size());
  if (part.find('/') != std::string_view::npos) return std::nullopt;
  return std::string(part);
}

}  // namespace

FoundRoute find_route(std::string_view method, std::string_view path) {
  FoundRoute found;
  for (const Route& route : kRoutes) {
    const std::optional<std::string> part = match(route.path, path);
    if (!part) continue;
    found.path_known = true;
    if (method != route.method && !(method == "HEAD" && std::string_view(route.method) == "GET")) continue;
    found.route = &route;
    found.part = *part;
    break;
  }
  return found;
}

std::string_view request_name(const Route& route) {
  const std::string_view path = route.path;
  return path.substr(path.rfind('/') + 1);
}

}  // namespace openwork::serve
