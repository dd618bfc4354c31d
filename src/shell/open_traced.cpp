#include "shell/open_traced.h"

#include <fmt/format.h>

#include "base/error.h"
#include "report/captions.h"

namespace openwork {

TracedModel open_traced_model(const std::vector<std::string>& models, size_t n,
                              const std::vector<FeatureFolder>& transcoders, const CommonOptions& common) {
  if (common.dtype != "fp32")
    fail_input("tracing in " + common.dtype, "--dtype", "use fp32: effects are sums that must be exact");
  return attach_transcoders(open_model(models[n], common), models[n], short_names(models)[n], transcoders[n]);
}

std::vector<std::vector<int64_t>> tokenise_for(TracedModel& traced, const GivenPrompts& given,
                                               const CommonOptions& common) {
  TokenPrompts made = tokenise_prompts(given, traced.name, traced.model.config(), common);
  traced.tokenizer = std::move(made.tokenizer);
  traced.beginning = std::move(made.beginning);
  return std::move(made.ids);
}

ModelTrace trace_given(TracedModel& traced, const GivenPrompts& given, const CommonOptions& common,
                       const TraceQuestion& question, const PromptTraceSettings& settings,
                       const ModelTrace* first) {
  const std::vector<std::vector<int64_t>> ids = tokenise_for(traced, given, common);
  if (ids.size() != 1)
    fail_input(fmt::format("{} prompts", ids.size()), "--tokens-file", "give one, or use --prompts FILE");
  return trace_ids(traced, ids.front(), given.texts.empty() ? "" : given.texts.front(), question, settings,
                   first);
}

}  // namespace openwork
