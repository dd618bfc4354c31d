// Texts that a model made, as JSON (docs/json.md).
#pragma once
#include <nlohmann/json.hpp>

#include "analyze/generated_text.h"

namespace openwork {

// {"ids", "text", "ended"}; the text is empty where the model has no tokenizer.
nlohmann::json to_json(const GeneratedText& made, bool has_tokenizer);

// What a result depends on besides the model and the prompts, for its protocol; of a next-token table the chat alone.
nlohmann::json describe_text_settings(const TextSettings& settings);

// A prompt in tokens: {"ids", "pieces"}.
nlohmann::json describe_prompt(const TokenPrompts& prompts, const std::vector<int64_t>& ids);

}  // namespace openwork
