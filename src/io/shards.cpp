#include "io/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "io/json.h"

namespace openwork {
namespace {

// An index may name files beside it or below, nothing else on this machine.
bool stays_inside(const std::string& shard) {
  if (shard.empty() || shard.find('\0') != std::string::npos || shard.find('\\') != std::string::npos)
    return false;
  const std::filesystem::path path(shard);
  return path.is_relative() && path.has_filename() &&
         std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".." || part == "."; });
}

}  // namespace

ShardIndex parse_shard_index(std::string_view text, std::string_view origin) {
  constexpr std::string_view kAdvice = "fetch the index file again";
  const nlohmann::json json = parse_json(text, origin, DuplicateKeys::kRefuse);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object() || map->empty()) {
    fail_input("no 'weight_map' of tensor names to files", origin, kAdvice);
  }
  ShardIndex index;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !stays_inside(shard.get<std::string>())) {
      fail_input(fmt::format("shard {} of tensor '{}' is not a file beside the index",
                             printable(shard.dump(), 100), printable(tensor, 100)),
                 origin, kAdvice);
    }
    index.weight_map.emplace(tensor, shard.get<std::string>());
    index.shards.insert(shard.get<std::string>());
  }
  if (json.contains("metadata") && json["metadata"].is_object()) index.metadata = json["metadata"];
  return index;
}

}  // namespace openwork
