// The picture of a suite: a chart for each test whose bins lie on an axis (accuracy by distance, loss by
// position), and one for the others, a line for each model.
#pragma once
#include <string>
#include <vector>

#include "analyze/capability/suite.h"
#include "draw/figure.h"

namespace openwork {

draw::Figure draw_suite(const std::vector<SuiteModel>& models, const std::string& protocol);

}  // namespace openwork
