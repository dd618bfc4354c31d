// Generation as `run --generate` has it: chat templates, stop texts, text that appears as it is made.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/prompts.h"
#include "cli/common.h"
#include "model/generate.h"

namespace openwork {

struct TextOptions {
  GenerateOptions generate;
  std::vector<std::string> stops;
  bool chat = false;
  std::string system;  // a chat's first message; empty: none
};

void add_text_options(CLI::App& verb, TextOptions& options);

// The prompts of a chat: each text a user's message, written out by the model's chat template.
TokenPrompts tokenise_chat(GivenPrompts given, const std::string& model_name, const ModelConfig& config,
                           const TextOptions& options);

// What a result depends on besides the model and the prompts, for its protocol; of a next-token table the chat alone.
nlohmann::json describe_text_options(const TextOptions& options);

// Continues all prompts, printing: one prompt's text as it is made, several when each is done, in order.
// [{"ids", "text", "ended": "length", "stop" or "end"}]
nlohmann::json generate_texts(const CommonOptions& common, const TextOptions& options,
                              const Transformer& model, const std::string& model_name,
                              const TokenPrompts& prompts);

}  // namespace openwork
