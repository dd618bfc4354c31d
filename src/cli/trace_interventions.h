// `trace --interventions [N]`: the graphs' top features and heads knocked out in the models themselves, over many
// prompts of a file or a task, and how well the graphs predict what happens.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/trace/intervention_study.h"
#include "shell/open_traced.h"

namespace openwork {

struct StudiedPrompts {
  std::string file, task;  // one of the two
  int64_t count = 20;      // prompts, the first of the file
};

// Prints the table and returns {"texts", "models", "comparison"}; adds prompts, device and bootstrap to the
// protocol.
nlohmann::json study_interventions(const StudiedPrompts& prompts, const std::vector<std::string>& models,
                                   const std::vector<FeatureFolder>& transcoders,
                                   const KnockOutSettings& settings, const CommonOptions& common,
                                   nlohmann::json& protocol);

}  // namespace openwork
