// Texts that a model makes of prompts: chat templates, stop texts, end tokens, each text told of as it grows.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "analyze/prompts.h"
#include "model/generate.h"

namespace openwork {

struct TextSettings {
  GenerateOptions generate;
  std::vector<std::string> stops;  // a text ends before one; empty ones do not count
  bool chat = false;               // prompts are messages
  std::string system;              // a chat's first message; empty: none
};

struct GeneratedText {
  std::vector<int64_t> ids = {};
  std::string text = {};   // the ids in words where the model has no tokenizer
  std::string ended = {};  // "length", "stop" or "end"; empty while it goes on
};

// Told of prompt n's next piece, and of its text with it.
using WatchText = std::function<void(size_t n, const std::string& piece, const GeneratedText& so_far)>;

// The prompts of a chat: each text a user's message, written out by the chat template in the model's `folder`.
TokenPrompts encode_chat(GivenPrompts given, const std::filesystem::path& folder, Tokenizer tokenizer,
                         const std::string& system, const ModelConfig& config);

// Continues all prompts at once, and notes how fast. `ends` are tokens that end a text; `model_name` is for errors.
std::vector<GeneratedText> generate_texts(const Transformer& model, const TokenPrompts& prompts,
                                          const TextSettings& settings, const std::vector<int64_t>& ends,
                                          const std::string& model_name, const WatchText& watch);

}  // namespace openwork
