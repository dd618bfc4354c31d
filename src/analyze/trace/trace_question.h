// What is asked of a prompt, from the words people ask it in to tokens and positions of one model.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/trace/traced_model.h"

namespace openwork {

struct TraceQuestion {
  std::vector<std::string> targets;  // tokens whose logits are traced; none: the most likely one
  std::string from, to;              // positions, or words of the prompt; empty: chosen
  std::string where = {};            // "FILE line 3"; empty: options of the command line
};

struct TracePrompt {
  std::vector<int64_t> ids, targets;
  std::string text;                 // empty where only tokens are known
  std::optional<int64_t> from, to;  // absent: chosen
};

// The prompt `ids`, whose text is `text` where there is one, and the question in this model's tokens. A word
// is its last token where it stands last. Fails naming the option (--target, --from, --to) where something is
// not there.
TracePrompt read_trace_prompt(const TracedModel& traced, const std::vector<int64_t>& ids,
                              const std::string& text, const TraceQuestion& question);

}  // namespace openwork
