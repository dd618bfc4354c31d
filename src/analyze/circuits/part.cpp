#include "analyze/circuits/part.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace openwork {
namespace {

std::optional<int32_t> parse_number(std::string_view digits) {
  int32_t value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  if (error != std::errc() || end != last || digits.front() == '-') return std::nullopt;
  return value;
}

std::optional<Part> parse_mlp(std::string_view name) {
  const std::optional<int32_t> layer = parse_number(name.substr(1));
  return layer ? std::optional(mlp_part(*layer)) : std::nullopt;
}

// What stands behind a head's name: nothing, an input or an edge.
bool parse_rest(std::string_view rest, Part& part) {
  if (rest.empty()) return true;
  if (rest.starts_with(':')) {
    const size_t arrow = rest.find("<-");
    if (arrow == std::string_view::npos) return false;
    const auto query = parse_number(rest.substr(1, arrow - 1)), key = parse_number(rest.substr(arrow + 2));
    if (!query || !key) return false;
    part.kind = Part::Kind::kEdge, part.query = *query, part.key = *key;
    return true;
  }
  part.kind = rest == "<q>" ? Part::Kind::kQuery : rest == "<k>" ? Part::Kind::kKey : Part::Kind::kValue;
  return part.kind != Part::Kind::kValue || rest == "<v>";
}

std::optional<Part> parse_name(std::string_view name) {
  if (name.starts_with('m')) return parse_mlp(name);
  const size_t end = std::min(name.find_first_of(":<"), name.size());
  const std::optional<HeadPlace> place = parse_head_place(name.substr(0, end));
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (!place || place->layer > kMost || place->head > kMost) return std::nullopt;
  Part part = head_part(*place);
  return parse_rest(name.substr(end), part) ? std::optional(part) : std::nullopt;
}

}  // namespace

std::vector<Part> list_parts(const ModelConfig& config, Part::Kind kind) {
  std::vector<Part> parts;
  const int64_t heads = kind == Part::Kind::kMlp ? 1 : config.heads;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int64_t head = 0; head < heads; ++head)
      parts.push_back({kind, static_cast<int32_t>(layer), static_cast<int32_t>(head)});
  }
  return parts;
}

std::vector<HeadPlace> all_heads(const ModelConfig& config) {
  std::vector<HeadPlace> heads;
  for (const Part& part : list_parts(config, Part::Kind::kHead)) heads.push_back(part.place());
  return heads;
}

std::string to_string(const Part& part) {
  switch (part.kind) {
    case Part::Kind::kHead:
      return part.place().name();
    case Part::Kind::kQuery:
      return part.place().name() + "<q>";
    case Part::Kind::kKey:
      return part.place().name() + "<k>";
    case Part::Kind::kValue:
      return part.place().name() + "<v>";
    case Part::Kind::kMlp:
      return fmt::format("m{}", part.layer);
    case Part::Kind::kEdge:
      return fmt::format("{}:{}<-{}", part.place().name(), part.query, part.key);
  }
  return "";
}

Part parse_part(const std::string& name, const ModelConfig& config, int64_t tokens) {
  const std::optional<Part> part = parse_name(name);
  if (!part) {
    fail_input(fmt::format("'{}' is no part of a model", printable(name, 60)), "names of parts",
               "write heads as L5H1, their inputs as L5H1<q>, MLPs as m3, attention edges as L5H1:8<-5");
  }
  if (part->layer >= config.layers || (part->kind != Part::Kind::kMlp && part->head >= config.heads)) {
    fail_input(fmt::format("the model has no {}", name), "names of parts",
               fmt::format("it has layers 0 to {} and heads 0 to {}", config.layers - 1, config.heads - 1));
  }
  if (part->kind == Part::Kind::kEdge && (part->query >= tokens || part->key > part->query)) {
    fail_input(fmt::format("no attention edge {}", name), "names of parts",
               fmt::format("keys are not after their query, and queries are 0 to {}", tokens - 1));
  }
  return *part;
}

}  // namespace openwork
