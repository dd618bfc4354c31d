// Traced prompts as JSON (docs/json.md, trace).
#pragma once
#include <nlohmann/json.hpp>
#include <optional>

#include "analyze/trace/trace_prompts.h"

namespace openwork {

// {"path", "sha256", "kind", "features", "scan"}; null where MLPs are nodes.
nlohmann::json to_json(const std::optional<TranscoderFiles>& files);

nlohmann::json to_json(const HeadExplanation& explanation);
nlohmann::json to_json(const TraceWorth& worth);
// The pattern entries' scores, nodes by their names.
nlohmann::json scores_json(const ModelTrace& trace);
// At most `most`, nodes by their names.
nlohmann::json supernodes_json(const ModelTrace& trace, size_t most);

// One model's trace, with its `top` strongest nodes.
nlohmann::json to_json(const ModelTrace& trace, int64_t top);

// Many prompts: one model's, and two models' ratio.
nlohmann::json to_json(const HeadsByPrompt& model);
nlohmann::json to_json(const HeadRatio& ratio);

}  // namespace openwork
