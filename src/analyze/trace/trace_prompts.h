// Many prompts: how many heads each needs, by model, with intervals over the prompts. Their file has a JSON
// object per line:
//   {"prompt": "The opposite of 'large' is '", "target": "small", "from": {"word": "large"}, "to": 8}
// where all but the prompt may be left out: the most likely token, the token most is moved from, the last
// one. `from` and `to` are positions or words; lines of plain text are prompts alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/trace/model_trace.h"
#include "base/interval.h"

namespace openwork {

struct PromptLine {
  std::string prompt;
  TraceQuestion question;
};
std::vector<PromptLine> read_prompt_lines(const std::string& path);

// What one prompt needs in one model.
struct PromptHeads {
  int64_t from = 0, to = 0, needed = 0;
  std::vector<HeadPlace> heads;  // the needed ones, the largest share first
  std::string target;            // the answer it was traced to
  double probability = 0;
  SumCheck sums;
};
// The line's prompt, whose tokens in this model are `ids`. Fails on a prompt of one token: nothing moves
// there.
PromptHeads count_heads(const TracedModel& traced, const PromptLine& line, const std::vector<int64_t>& ids,
                        const PromptTraceSettings& settings,
                        const std::function<void(int64_t, int64_t)>& advance = nullptr);

struct HeadsByPrompt {
  std::string name;
  std::vector<PromptHeads> prompts;
  double mean = 0;    // heads needed
  Interval interval;  // prompts resampled
};
HeadsByPrompt summarise_heads(const std::string& name, std::vector<PromptHeads> prompts, uint64_t seed);

// How many times fewer heads the sparse model needs than the dense one; prompts are drawn in pairs, the same
// ones for both.
struct HeadRatio {
  std::string dense, sparse;
  double ratio = 0;
  Interval interval;
};
HeadRatio compare_heads(const HeadsByPrompt& dense, const HeadsByPrompt& sparse, uint64_t seed);

}  // namespace openwork
