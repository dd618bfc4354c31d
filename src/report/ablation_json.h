// What ablation measured, as JSON: {"clean_metric", "corrupt_metric", "ablation"} and either "of", "effects"
// and "intervals", layer by layer, or "parts": [{"name", "effect", "interval"}] where parts were named.
#pragma once
#include <nlohmann/json.hpp>

#include "analyze/circuits/ablation_effects.h"

namespace openwork {

// How options and JSON call what is swept.
const char* sweep_name(Part::Kind kind);  // heads, q, k, v, mlp
Part::Kind parse_sweep(const std::string& name);

nlohmann::json to_json(const AblationRecord& record);

}  // namespace openwork
