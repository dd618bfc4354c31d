// The capability suite as JSON; docs/json.md lists the keys.
#pragma once
#include <nlohmann/json.hpp>

#include "analyze/capability/suite.h"

namespace openwork {

nlohmann::json to_json(const SuiteModel& model);
nlohmann::json to_json(const SuiteDifference& difference);

}  // namespace openwork
