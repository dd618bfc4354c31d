// A run's options: whether they fit together, and as its report has them.
#pragma once
#include <nlohmann/json.hpp>

#include "train/sparsify.h"

namespace openwork {

// Fails where two of them make no run, before any work.
void check_run_options(const RunOptions& run);

// `context`: tokens of a sample. Options that say nothing about this run (of gates, of low ranks) are left
// out.
nlohmann::json describe_options(const RunOptions& run, int64_t context);

}  // namespace openwork
