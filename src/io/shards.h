// Weights spread over several files: FILE.index.json holds {"weight_map": {tensor: shard file}}, shards lying
// beside it. The same form for model.safetensors and pytorch_model.bin.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

namespace openwork {

struct ShardIndex {
  std::map<std::string, std::string> weight_map;  // tensor to shard
  std::set<std::string> shards;                   // each once
  nlohmann::json metadata = nlohmann::json::object();
};

// Bad input: no weight_map, or a shard path that is absolute, climbs out of the folder, or is no path at all.
ShardIndex parse_shard_index(std::string_view text, std::string_view origin);

}  // namespace openwork
