// The capability suite as the table a person reads.
#pragma once
#include <string>
#include <vector>

#include "analyze/capability/suite.h"

namespace openwork {

// A row for each bin of the first model, a column for each model; later ones with the p of their difference.
std::vector<std::string> format_suite(const std::vector<SuiteModel>& models,
                                      const std::vector<SuiteDifference>& differences);

}  // namespace openwork
