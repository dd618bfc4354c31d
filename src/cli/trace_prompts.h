// Tracing many prompts: how many heads each needs, by model, with intervals over the prompts. The file has a
// JSON object per line:
//   {"prompt": "The opposite of 'large' is '", "target": "small", "from": {"word": "large"}, "to": 8}
// where all but the prompt may be left out: the most likely token, the token most is moved from, the last
// one. `from` and `to` are positions or words; lines of plain text are prompts alone.
#pragma once
#include "cli/trace_model.h"

namespace openwork {

struct PromptLine {
  std::string prompt, target, from, to;
};
std::vector<PromptLine> read_prompt_lines(const std::string& path);

// Traces every prompt in every model, prints the table and returns {"prompts", "models", "comparison"}.
nlohmann::json trace_prompts(const TraceOptions& options, const std::vector<std::string>& models,
                             const std::vector<std::string>& transcoders, nlohmann::json& protocol);

}  // namespace openwork
