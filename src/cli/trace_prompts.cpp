#include "cli/trace_prompts.h"

#include <filesystem>

#include "io/sha256.h"
#include "report/trace_json.h"
#include "report/trace_prompts_text.h"

namespace openwork {
namespace {

HeadsByPrompt trace_lines(TracedModel traced, const std::vector<PromptLine>& lines,
                          const PromptTraceSettings& settings, const CommonOptions& common) {
  GivenPrompts given;
  for (const PromptLine& line : lines) given.texts.push_back(line.prompt);
  const std::vector<std::vector<int64_t>> ids = tokenise_for(traced, given, common);
  std::vector<PromptHeads> prompts;
  for (size_t n = 0; n < lines.size(); ++n) {
    {
      TraceProgress progress(traced);
      prompts.push_back(count_heads(traced, lines[n], ids[n], settings, std::ref(progress)));
    }
    print_result(common, format_prompt(traced.title, lines[n], prompts.back()));
  }
  return summarise_heads(traced.name, std::move(prompts), common.seed);
}

}  // namespace

nlohmann::json trace_prompt_file(const std::string& file, const std::vector<std::string>& models,
                                 const std::vector<FeatureFolder>& transcoders,
                                 const PromptTraceSettings& settings, const CommonOptions& common,
                                 nlohmann::json& protocol) {
  const std::vector<PromptLine> lines = read_prompt_lines(file);
  protocol["prompt"] = {{"prompts", std::filesystem::path(file).filename().string()},
                        {"sha256", sha256_of_file(file)},
                        {"count", lines.size()}};
  protocol["bootstrap"] = "prompts, 2000 draws; the same ones for both models of a ratio";
  print_result(common, format_prompts_header());
  std::vector<HeadsByPrompt> counts;
  for (size_t n = 0; n < models.size(); ++n) {
    TracedModel traced = open_traced_model(models, n, transcoders, common);
    protocol["device"] = traced.model.device().str();
    counts.push_back(trace_lines(std::move(traced), lines, settings, common));
  }
  nlohmann::json result = {{"texts", nlohmann::json::array()},
                           {"models", nlohmann::json::array()},
                           {"comparison", nlohmann::json::array()}};
  for (const PromptLine& line : lines) result["texts"].push_back(line.prompt);
  for (const HeadsByPrompt& model : counts) {
    print_result(common, format_mean(model, settings.explain));
    result["models"].push_back(to_json(model));
  }
  for (size_t n = 1; n < counts.size(); ++n) {
    const HeadRatio ratio = compare_heads(counts[0], counts[n], common.seed);
    print_result(common, format_ratio(ratio));
    result["comparison"].push_back(to_json(ratio));
  }
  return result;
}

}  // namespace openwork
