#include "shell/prompt_source.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/model_store.h"
#include "shell/open.h"

namespace openwork {
namespace {

constexpr const char* kHowToPrompt = "give PROMPT last, or --prompts FILE, --tokens or --tokens-file";

// A prompt that was forgotten leaves a model in its place.
bool is_model(const std::string& word) {
  try {
    locate_model(word);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string PromptSourceOptions::option() const {
  return !prompts.empty()       ? "--prompts"
         : !tokens.empty()      ? "--tokens"
         : !tokens_file.empty() ? "--tokens-file"
                                : "";
}

void add_token_options(CLI::App& verb, PromptSourceOptions& options) {
  verb.add_option("--tokens", options.tokens, "token ids instead of a text")->type_name("1,2,3");
  verb.add_option("--tokens-file", options.tokens_file, "JSON file [[id, ...], ...] of prompts")
      ->type_name("FILE");
}

void add_prompt_source_options(CLI::App& verb, PromptSourceOptions& options) {
  verb.add_option("--prompts", options.prompts,
                  "text file with a prompt per line, or JSONL; sample: the built-in ones")
      ->type_name("FILE");
  add_token_options(verb, options);
}

GivenPrompts take_prompts(std::vector<std::string>& positionals, const PromptSourceOptions& options) {
  const int given = !options.prompts.empty() + !options.tokens.empty() + !options.tokens_file.empty();
  if (given > 1) fail_input("more than one source of prompts", "command line", kHowToPrompt);
  GivenPrompts prompts;
  if (given == 1) {
    prompts = take_prompt(std::nullopt, options);
  } else {
    if (positionals.size() < 2) fail_input("no prompt", "command line", kHowToPrompt);
    if (is_model(positionals.back()))
      fail_input(fmt::format("no prompt: '{}', the last word, is a model", printable(positionals.back(), 60)),
                 "command line", kHowToPrompt);
    prompts = take_prompt(positionals.back(), options);
    positionals.pop_back();
  }
  if (positionals.empty()) fail_input("no model", "command line", "name at least one");
  return prompts;
}

GivenPrompts take_prompt(const std::optional<std::string>& text, const PromptSourceOptions& options) {
  if (text.has_value() && !options.option().empty())
    fail_input(fmt::format("a prompt, '{}', and {} together", printable(*text, 60), options.option()),
               "command line", "leave one of them out");
  if (text.has_value() + !options.prompts.empty() + !options.tokens.empty() + !options.tokens_file.empty() !=
      1) {
    fail_input("exactly one prompt is needed", "command line",
               "give PROMPT, --prompts FILE, --tokens or --tokens-file");
  }
  if (text) return give_text(*text);
  if (!options.prompts.empty()) return give_file(options.prompts);
  if (options.tokens.empty()) return give_tokens_file(options.tokens_file);
  return {.ids = {parse_id_list(options.tokens, "--tokens")}, .description = {{"tokens", options.tokens}}};
}

TokenPrompts tokenise_prompts(const GivenPrompts& given, const std::string& model, const ModelConfig& config,
                              const CommonOptions& common) {
  // Given tokens need none: they are then shown as numbers.
  std::optional<Tokenizer> tokenizer = given.texts.empty() ? find_tokenizer(model) : open_tokenizer(model);
  std::vector<int64_t> beginning;
  if (tokenizer) beginning = beginning_tokens(*tokenizer, common);
  return encode_prompts(given, std::move(tokenizer), std::move(beginning), config);
}

}  // namespace openwork
