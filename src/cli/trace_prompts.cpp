#include "cli/trace_prompts.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/interval_text.h"
#include "io/sha256.h"
#include "report/trace_json.h"

namespace openwork {
namespace {

void print_prompt(const CommonOptions& common, const TracedModel& traced, const PromptLine& line,
                  const PromptHeads& heads) {
  print_result(common,
               fmt::format("{:<24} {:>5}  key {:>2} -> query {:>2}  {:<10} {:>7.3f} %  {}", traced.title,
                           heads.needed, heads.from, heads.to, printable(heads.target, 20),
                           100 * heads.probability, printable(line.prompt, 60)));
}

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
    print_prompt(common, traced, lines[n], prompts.back());
  }
  return summarise_heads(traced.name, std::move(prompts), common.seed);
}

void print_mean(const CommonOptions& common, const HeadsByPrompt& model, double share) {
  print_result(common,
               fmt::format("{}: {:.1f} heads carry {:.0f} % on average, 95 % {}, {} prompts", model.name,
                           model.mean, 100 * share, interval_text(model.interval, 1), model.prompts.size()));
}

void print_ratio(const CommonOptions& common, const HeadRatio& ratio) {
  print_result(common, fmt::format("{} needs {:.2f} times fewer heads than {}, 95 % {}", ratio.sparse,
                                   ratio.ratio, ratio.dense, interval_text(ratio.interval, 2)));
}

}  // namespace

nlohmann::json trace_prompt_file(const std::string& file, const std::vector<std::string>& models,
                                 const std::vector<std::string>& transcoders,
                                 const PromptTraceSettings& settings, const CommonOptions& common,
                                 nlohmann::json& protocol) {
  const std::vector<PromptLine> lines = read_prompt_lines(file);
  protocol["prompt"] = {{"prompts", std::filesystem::path(file).filename().string()},
                        {"sha256", sha256_of_file(file)},
                        {"count", lines.size()}};
  protocol["bootstrap"] = "prompts, 2000 draws; the same ones for both models of a ratio";
  print_result(common, fmt::format("{:<24} {:>5}", "model", "heads"));
  std::vector<HeadsByPrompt> counts;
  for (size_t n = 0; n < models.size(); ++n) {
    TracedModel traced = open_traced_model(models[n], transcoders[n], common);
    protocol["device"] = traced.model.device().str();
    counts.push_back(trace_lines(std::move(traced), lines, settings, common));
  }
  nlohmann::json result = {{"texts", nlohmann::json::array()},
                           {"models", nlohmann::json::array()},
                           {"comparison", nlohmann::json::array()}};
  for (const PromptLine& line : lines) result["texts"].push_back(line.prompt);
  for (const HeadsByPrompt& model : counts) {
    print_mean(common, model, settings.explain);
    result["models"].push_back(to_json(model));
  }
  for (size_t n = 1; n < counts.size(); ++n) {
    const HeadRatio ratio = compare_heads(counts[0], counts[n], common.seed);
    print_ratio(common, ratio);
    result["comparison"].push_back(to_json(ratio));
  }
  return result;
}

}  // namespace openwork
