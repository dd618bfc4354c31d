// The words that stand around a figure: what a model is called, which prompts it was shown, how it was made.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace openwork {

// A model as a figure names it: the folder's or file's own name where a path was given.
std::string short_name(const std::string& model);
// Of several models, no two alike: those that would share one keep the path they were given by, and a model that is
// named again gets a mark.
std::vector<std::string> short_names(const std::vector<std::string>& models);
// Of records that have a `name`.
template <typename Model>
std::vector<std::string> short_names_of(const std::vector<Model>& models) {
  std::vector<std::string> names;
  for (const Model& model : models) names.push_back(model.name);
  return short_names(names);
}

// The title above a model's part of a figure: its name there (short_names), and whether it is gated.
std::string title_model(const std::string& name, bool gated);

// "openwork 0.1.0; openwork-8m 3f2a91c04d5e; cpu fp32, bos auto, seed 0.": the line under a figure, of a `model` or of
// several `models`.
std::string describe_protocol(const nlohmann::json& protocol);

// A subtitle: “When Mary and John ...” (15 tokens), "mean of 24 prompts of 15 tokens" where there are several,
// and "15 tokens" where only tokens are known (no texts). All prompts have `tokens` tokens.
std::string describe_prompts(const std::vector<std::string>& texts, size_t prompts, size_t tokens);

// "12 prompts of 9 to 20 tokens", by how many each has.
std::string describe_lengths(const std::vector<int64_t>& prompt_tokens);

// A prompt's tokens as axes show them.
std::vector<std::string> mark_tokens(const std::vector<std::string>& pieces);

}  // namespace openwork
