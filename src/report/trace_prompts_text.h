// Many traced prompts as the tables a person reads: the heads that each needs, and how well graphs predict knock-outs.
#pragma once
#include <string>
#include <vector>

#include "analyze/trace/intervention_study.h"
#include "analyze/trace/trace_prompts.h"

namespace openwork {

// A row for each prompt of each model (`title`); then each model's mean, and how models compare.
std::string format_prompts_header();
std::string format_prompt(const std::string& title, const PromptLine& line, const PromptHeads& heads);
std::string format_mean(const HeadsByPrompt& model, double share);  // `share` is what the heads carry
std::string format_ratio(const HeadRatio& ratio);

// A table with a row for each model and kind of knock-out; then how models differ in each.
std::string format_studies_header();
std::vector<std::string> format_study(const InterventionStudy& study);
// The same rows, with what the ranks are where more of what a graph holds follows, or the model's patterns are held too.
std::string format_forecasts_header();
std::vector<std::string> format_forecasts(const InterventionStudy& study);
std::vector<std::string> format_difference(const StudyDifference& difference);

}  // namespace openwork
