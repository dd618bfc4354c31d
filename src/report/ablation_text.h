// What ablation measured, as the table a person reads.
#pragma once
#include <string>
#include <vector>

#include "analyze/circuits/ablation_effects.h"

namespace openwork {

// The metric, then the `top` parts of the largest effect.
std::vector<std::string> format_effects(const AblationRecord& record, int64_t top);

}  // namespace openwork
