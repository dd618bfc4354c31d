// What pruning did, as JSON (docs/json.md) and as the lines a person reads at the end.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/pruning.h"

namespace openwork {

const char* prune_by_name(PruneBy by);  // edges, effect

nlohmann::json to_json(const PruneRecord& record);
std::vector<std::string> describe_pruning(const PruneRecord& record);

}  // namespace openwork
