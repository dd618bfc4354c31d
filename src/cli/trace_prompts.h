// `trace --prompts FILE`: many prompts traced in every model, a line for each, and what they come to.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shell/open_traced.h"

namespace openwork {

// Prints the table and returns {"texts", "models", "comparison"}; adds prompts, device and bootstrap to the
// protocol.
nlohmann::json trace_prompt_file(const std::string& file, const std::vector<std::string>& models,
                                 const std::vector<FeatureFolder>& transcoders,
                                 const PromptTraceSettings& settings, const CommonOptions& common,
                                 nlohmann::json& protocol);

}  // namespace openwork
