#include "analyze/trace/trace_prompts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/json.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

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
  PromptLine read{line["prompt"],
                  {{}, read_place(line, "from", where), read_place(line, "to", where), where}};
  if (const std::string target = line.value("target", ""); !target.empty()) read.question.targets = {target};
  return read;
}

std::vector<double> heads_needed(const HeadsByPrompt& model) {
  std::vector<double> heads;
  for (const PromptHeads& prompt : model.prompts) heads.push_back(static_cast<double>(prompt.needed));
  return heads;
}

}  // namespace

std::vector<PromptLine> read_prompt_lines(const std::string& path) {
  const PromptFileLines file = read_prompt_file_lines(path);
  std::vector<PromptLine> lines;
  for (const auto& [text, where] : file.lines)
    lines.push_back(file.json ? read_line(text, where) : PromptLine{text, {{}, {}, {}, where}});
  return lines;
}

PromptHeads count_heads(const TracedModel& traced, const PromptLine& line, const std::vector<int64_t>& ids,
                        const PromptTraceSettings& settings,
                        const std::function<void(int64_t, int64_t)>& advance) {
  if (ids.size() < 2)
    fail_input("a prompt of one token", line.question.where,
               "nothing moves between tokens: give two or more");
  const ModelTrace trace =
      trace_prompt(traced, read_trace_prompt(traced, ids, line.prompt, line.question), settings, advance);
  const HeadExplanation& explanation = *trace.explanation;
  PromptHeads found{.from = explanation.from,
                    .to = explanation.to,
                    .needed = explanation.needed,
                    .heads = {},
                    .target = trace.target_text(),
                    .probability = trace.target().probability,
                    .sums = trace.graph.sums};
  for (int64_t n = 0; n < explanation.needed; ++n)
    found.heads.push_back(explanation.heads[static_cast<size_t>(n)].head);
  return found;
}

HeadsByPrompt summarise_heads(const std::string& name, std::vector<PromptHeads> prompts, uint64_t seed) {
  HeadsByPrompt model{name, std::move(prompts), 0, {}};
  const std::vector<double> heads = heads_needed(model), ones(heads.size(), 1);
  for (const double needed : heads) model.mean += needed / static_cast<double>(heads.size());
  model.interval = bootstrap_ratio(heads, ones, seed);
  return model;
}

HeadRatio compare_heads(const HeadsByPrompt& dense, const HeadsByPrompt& sparse, uint64_t seed) {
  const std::vector<double> many = heads_needed(dense), few = heads_needed(sparse);
  double above = 0, below = 0;
  for (size_t n = 0; n < many.size(); ++n) above += many[n], below += few[n];
  return {dense.name, sparse.name, below > 0 ? above / below : 0, bootstrap_ratio(many, few, seed)};
}

}  // namespace openwork
