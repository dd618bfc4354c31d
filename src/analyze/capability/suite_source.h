// What the tests of the suite are made of, for one model: its tokens, and held-out files in them.
#pragma once
#include <string>
#include <vector>

#include "analyze/capability/suite_test.h"

namespace openwork {

// Fills in documents and blocks; `name` is the model's. Fails where the files hold no block of source.context
// tokens, or tokens that the model has not.
void read_suite_data(SuiteSource& source, const std::vector<std::string>& files, int32_t end_of_text,
                     const std::string& name);

}  // namespace openwork
