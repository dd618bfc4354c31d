#include "cli/trace_prompts.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/interval.h"
#include "base/error.h"
#include "cli/figure_options.h"
#include "io/json.h"
#include "io/sha256.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

// What one model needs for each prompt.
struct PromptCounts {
  std::string name;
  std::vector<double> heads;
  nlohmann::json rows = nlohmann::json::array();
};

// 5, "5", "large" or {"word": "large"}
std::string read_place(const nlohmann::json& line, const char* key, const std::string& where) {
  if (!line.contains(key) || line[key].is_null()) return "";
  const nlohmann::json& value =
      line[key].is_object() && line[key].contains("word") ? line[key]["word"] : line[key];
  if (value.is_number_unsigned()) return fmt::format("{}", value.get<uint64_t>());
  if (value.is_string() && !value.get<std::string>().empty()) return value;
  fail_input(fmt::format("\"{}\" is neither a position nor a word", key), where,
             "write it like 5 or {\"word\": \"large\"}");
}

PromptLine read_line(const std::string& text, const std::string& where) {
  const nlohmann::json line = parse_json(text, where);
  if (!line.is_object() || !line.contains("prompt") || !line["prompt"].is_string())
    fail_input("a line without \"prompt\"", where,
               "write it like {\"prompt\": \"A text\", \"target\": \" word\"}");
  if (line.contains("target") && !line["target"].is_string())
    fail_input("\"target\" is not a text", where, "write it like \"target\": \"small\"");
  return {line["prompt"], line.value("target", ""), read_place(line, "from", where),
          read_place(line, "to", where)};
}

PromptCounts count_heads(const TraceOptions& options, const std::string& name, const std::string& transcoders,
                         const std::vector<PromptLine>& lines, nlohmann::json& protocol) {
  TracedModel traced = open_traced_model(name, transcoders, options.common);
  protocol["device"] = traced.model.device().str();
  GivenPrompts given;
  for (const PromptLine& line : lines) given.texts.push_back(line.prompt);
  TokenPrompts made = tokenise_prompts(given, name, traced.model.config(), options.common);
  traced.tokenizer = std::move(made.tokenizer);
  traced.beginning = made.beginning;
  PromptCounts counts{name, {}, {}};
  for (size_t n = 0; n < lines.size(); ++n) {
    std::vector<std::string> targets;
    if (!lines[n].target.empty()) targets.push_back(lines[n].target);
    if (made.ids[n].size() < 2)
      fail_input("a prompt of one token", fmt::format("prompt {}", n + 1),
                 "nothing moves between tokens: give two or more");
    const TracePrompt prompt =
        read_trace_prompt(traced, made.ids[n], lines[n].prompt, targets, lines[n].from, lines[n].to);
    const ModelTrace trace = trace_prompt(traced, prompt, options);
    const TraceNode& target = trace.graph.nodes.back();
    counts.heads.push_back(static_cast<double>(trace.explanation->needed));
    nlohmann::json first = nlohmann::json::array();
    for (int64_t h = 0; h < trace.explanation->needed; ++h)
      first.push_back(trace.explanation->heads[static_cast<size_t>(h)].head.name());
    counts.rows.push_back(
        {{"from", trace.explanation->from},
         {"to", trace.explanation->to},
         {"target", trace.labels.back()},
         {"probability", target.probability},
         {"needed", trace.explanation->needed},
         {"heads", first},
         {"sums", {{"effects", trace.graph.sums.effects}, {"heads", trace.graph.sums.heads}}}});
    print_result(options.common,
                 fmt::format("{:<24} {:>5}  key {:>2} -> query {:>2}  {:<10} {:>7.3f} %  {}",
                             short_name(name), trace.explanation->needed, trace.explanation->from,
                             trace.explanation->to, printable(trace.labels.back(), 20),
                             100 * target.probability, printable(lines[n].prompt, 60)));
  }
  return counts;
}

nlohmann::json summarise(const TraceOptions& options, const PromptCounts& counts) {
  const std::vector<double> ones(counts.heads.size(), 1);
  const Interval interval = bootstrap_ratio(counts.heads, ones, options.common.seed);
  double mean = 0;
  for (const double heads : counts.heads) mean += heads / static_cast<double>(counts.heads.size());
  print_result(options.common,
               fmt::format("{}: {:.1f} heads carry {:.0f} % on average, 95 % [{:.1f}, {:.1f}], {} prompts",
                           counts.name, mean, 100 * options.explain, interval.low, interval.high,
                           counts.heads.size()));
  return {{"name", counts.name},
          {"mean", mean},
          {"interval", {interval.low, interval.high}},
          {"prompts", counts.rows}};
}

// Prompts are drawn in pairs: the same ones for both models.
nlohmann::json compare_counts(const TraceOptions& options, const PromptCounts& dense,
                              const PromptCounts& sparse) {
  const Interval interval = bootstrap_ratio(dense.heads, sparse.heads, options.common.seed);
  double above = 0, below = 0;
  for (size_t n = 0; n < dense.heads.size(); ++n) above += dense.heads[n], below += sparse.heads[n];
  const double ratio = below > 0 ? above / below : 0;
  print_result(options.common, fmt::format("{} needs {:.2f} times fewer heads than {}, 95 % [{:.2f}, {:.2f}]",
                                           sparse.name, ratio, dense.name, interval.low, interval.high));
  return {{"dense", dense.name},
          {"sparse", sparse.name},
          {"ratio", ratio},
          {"interval", {interval.low, interval.high}}};
}

}  // namespace

std::vector<PromptLine> read_prompt_lines(const std::string& path) {
  const PromptFileLines file = read_prompt_file_lines(path);
  std::vector<PromptLine> lines;
  for (const auto& [text, where] : file.lines)
    lines.push_back(file.json ? read_line(text, where) : PromptLine{text, "", "", ""});
  return lines;
}

nlohmann::json trace_prompts(const TraceOptions& options, const std::vector<std::string>& models,
                             const std::vector<std::string>& transcoders, nlohmann::json& protocol) {
  const std::vector<PromptLine> lines = read_prompt_lines(options.source.prompts);
  protocol["prompt"] = {{"prompts", std::filesystem::path(options.source.prompts).filename().string()},
                        {"sha256", sha256_of_file(options.source.prompts)},
                        {"count", lines.size()}};
  protocol["bootstrap"] = "prompts, 2000 draws; the same ones for both models of a ratio";
  print_result(options.common, fmt::format("{:<24} {:>5}", "model", "heads"));
  std::vector<PromptCounts> counts;
  for (size_t n = 0; n < models.size(); ++n)
    counts.push_back(count_heads(options, models[n], transcoders[n], lines, protocol));
  nlohmann::json result = {{"texts", nlohmann::json::array()},
                           {"models", nlohmann::json::array()},
                           {"comparison", nlohmann::json::array()}};
  for (const PromptLine& line : lines) result["texts"].push_back(line.prompt);
  for (const PromptCounts& model : counts) result["models"].push_back(summarise(options, model));
  for (size_t n = 1; n < counts.size(); ++n)
    result["comparison"].push_back(compare_counts(options, counts[0], counts[n]));
  return result;
}

}  // namespace openwork
