// The suite of one model as part of a sweep: what is done is kept, ranks share the rest, a bar shows each test.
#pragma once
#include <string>
#include <vector>

#include "analyze/capability/suite.h"
#include "analyze/circuits/sweep.h"

namespace openwork {

SuiteModel sweep_suite(const Transformer& model, const std::string& name, const SuiteSource& source,
                       const std::vector<const SuiteTestMaker*>& tests, Sweep& sweep);

}  // namespace openwork
