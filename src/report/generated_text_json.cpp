#include "report/generated_text_json.h"

namespace openwork {

nlohmann::json to_json(const GeneratedText& made, bool has_tokenizer) {
  return {{"ids", made.ids}, {"text", has_tokenizer ? made.text : ""}, {"ended", made.ended}};
}

nlohmann::json describe_text_settings(const TextSettings& settings) {
  const GenerateOptions& generate = settings.generate;
  nlohmann::json chat = settings.chat ? nlohmann::json{{"system", settings.system}} : nlohmann::json();
  if (generate.tokens == 0) return {{"chat", chat}};
  return {{"chat", chat},
          {"generate", generate.tokens},
          {"temperature", generate.temperature},
          {"top_k", generate.top_k},
          {"top_p", generate.top_p},
          {"stop", settings.stops}};
}

nlohmann::json describe_prompt(const TokenPrompts& prompts, const std::vector<int64_t>& ids) {
  nlohmann::json pieces = nlohmann::json::array();
  for (const int64_t id : ids) pieces.push_back(prompts.piece(id));
  return {{"ids", ids}, {"pieces", pieces}};
}

}  // namespace openwork
