// From the command line's models and prompts to traces: what `trace` opens and asks.
#pragma once
#include <string>
#include <vector>

#include "analyze/trace/trace_ids.h"
#include "analyze/trace/trace_prompts.h"
#include "shell/open.h"
#include "shell/prompt_source.h"

namespace openwork {

// Opens the n-th of the models with the transcoders of its folder (none: MLPs are nodes), its title unlike the
// others'. Tracing is exact in fp32 alone; another dtype is refused.
TracedModel open_traced_model(const std::vector<std::string>& models, size_t n,
                              const std::vector<FeatureFolder>& transcoders, const CommonOptions& common);

// The given prompts in this model's tokens; gives the tokenizer to `traced`.
std::vector<std::vector<int64_t>> tokenise_for(TracedModel& traced, const GivenPrompts& given,
                                               const CommonOptions& common);

// The one prompt that was given. Where `first`, another model's trace, has the same tokens, the same two are
// asked about.
ModelTrace trace_given(TracedModel& traced, const GivenPrompts& given, const CommonOptions& common,
                       const TraceQuestion& question, const PromptTraceSettings& settings,
                       const ModelTrace* first);

}  // namespace openwork
