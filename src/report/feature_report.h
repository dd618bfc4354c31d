// Features of a model's transcoders, as JSON (docs/json.md) and as lines.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "transcode/feature_list.h"

namespace openwork {

// One feature with its contexts, the tokens it writes, how often it is active.
nlohmann::json to_json(const FoundFeature& found, const FeatureDescription& description,
                       const Tokenizer& tokenizer);
// Two lines and one for each of the first `contexts` contexts, the peak's token in brackets.
std::string to_text(const FoundFeature& found, const FeatureDescription& description,
                    const Tokenizer& tokenizer, int64_t contexts);

}  // namespace openwork
