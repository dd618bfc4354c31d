// What was measured on held-out text, as the table a person reads.
#pragma once
#include <string>
#include <vector>

#include "train/evaluation.h"

namespace openwork {

std::string format_evaluation_header();
// The model's row, what is kept where texts are short, and that one document gives no interval.
std::vector<std::string> format_evaluation(const std::string& name, const Evaluation& result);

}  // namespace openwork
