#include "report/feature_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace openwork {
namespace {

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  return tokenizer.decode(std::span(&id, 1));
}

std::vector<std::string> token_texts(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.push_back(token_text(tokenizer, id));
  return texts;
}

std::string context_line(const FeatureContext& context, const Tokenizer& tokenizer) {
  const std::span<const int32_t> ids = context.tokens;
  const auto peak = static_cast<size_t>(context.peak);
  return fmt::format("    {:8.3g}  {}[{}]{}", context.activations[peak],
                     printable(tokenizer.decode(ids.first(peak)), 200),
                     printable(token_text(tokenizer, ids[peak]), 80),
                     printable(tokenizer.decode(ids.subspan(peak + 1)), 200));
}

}  // namespace

nlohmann::json to_json(const FoundFeature& found, const FeatureDescription& description,
                       const Tokenizer& tokenizer) {
  nlohmann::json contexts = nlohmann::json::array();
  for (const FeatureContext& context : description.contexts) {
    contexts.push_back({{"tokens", token_texts(tokenizer, context.tokens)},
                        {"activations", context.activations},
                        {"peak", context.peak}});
  }
  return {{"layer", found.layer},
          {"feature", found.feature},
          {"reads", found.reads},
          {"writes", found.writes},
          {"density", description.density},
          {"largest", description.largest},
          {"raises", token_texts(tokenizer, description.top_logits)},
          {"lowers", token_texts(tokenizer, description.bottom_logits)},
          {"alike", found.alike},
          {"contexts", contexts}};
}

std::string to_text(const FoundFeature& found, const FeatureDescription& description,
                    const Tokenizer& tokenizer, int64_t contexts) {
  std::string text = fmt::format("L{}F{}  on {:.3g} %, at most {:.3g}", found.layer, found.feature,
                                 100 * description.density, description.largest);
  if (found.reads + found.writes > 0)
    text += fmt::format("  (reads {:.2f}, writes {:.2f})", found.reads, found.writes);
  if (!found.alike.empty()) text += fmt::format("  like F{}", fmt::join(found.alike, ", F"));
  std::vector<std::string> raised = token_texts(tokenizer, description.top_logits);
  for (std::string& token : raised) token = printable(token, 40);
  text += fmt::format("\n    writes    {}", fmt::join(raised, " |"));
  for (size_t n = 0; n < description.contexts.size() && static_cast<int64_t>(n) < contexts; ++n)
    text += "\n" + context_line(description.contexts[n], tokenizer);
  return text;
}

}  // namespace openwork
