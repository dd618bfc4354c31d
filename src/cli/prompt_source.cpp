#include "cli/prompt_source.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "cli/open.h"
#include "io/sha256.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

constexpr const char* kHowToPrompt =
    "give PROMPT last, or --prompts FILE, --prompts sample, --tokens or --tokens-file";

std::vector<int64_t> tokenise(const std::string& text, size_t number, const TokenPrompts& made,
                              const ModelConfig& config) {
  std::vector<int64_t> ids = made.beginning;
  const std::vector<int32_t> own = made.tokenizer->encode(text);
  ids.insert(ids.end(), own.begin(), own.end());
  const std::string where = fmt::format("prompt {}", number + 1);
  if (ids.empty()) fail_input("the prompt is empty", where, "give at least one token");
  if (static_cast<int64_t>(ids.size()) > config.context) {
    fail_input(fmt::format("{} tokens, but the model's context is {}", ids.size(), config.context), where,
               "use a shorter prompt");
  }
  for (const int64_t id : ids) {
    if (id >= config.vocabulary)
      fail_input(fmt::format("token id {}", id), where, "the tokenizer and the model do not belong together");
  }
  return ids;
}

}  // namespace

void add_prompt_source_options(CLI::App& verb, PromptSourceOptions& options) {
  verb.add_option("--prompts", options.prompts,
                  "text file with a prompt per line, or JSONL; sample: the built-in ones")
      ->type_name("FILE");
  verb.add_option("--tokens", options.tokens, "token ids instead of a text")->type_name("1,2,3");
  verb.add_option("--tokens-file", options.tokens_file, "JSON file [[id, ...], ...] of prompts")
      ->type_name("FILE");
}

GivenPrompts take_prompts(std::vector<std::string>& positionals, const PromptSourceOptions& options) {
  const int given = !options.prompts.empty() + !options.tokens.empty() + !options.tokens_file.empty();
  if (given > 1) fail_input("more than one source of prompts", "command line", kHowToPrompt);
  GivenPrompts prompts;
  if (options.prompts == "sample") {
    prompts.texts = sample_prompts();
    prompts.description = {{"prompts", "sample"}, {"count", prompts.texts.size()}};
  } else if (!options.prompts.empty()) {
    prompts.texts = read_prompt_file(options.prompts);
    prompts.description = {{"prompts", std::filesystem::path(options.prompts).filename().string()},
                           {"sha256", sha256_of_file(options.prompts)},
                           {"count", prompts.texts.size()}};
  } else if (given == 1) {
    prompts.tokens = options.tokens;
    prompts.tokens_file = options.tokens_file;
    prompts.description =
        options.tokens.empty()
            ? nlohmann::json{{"tokens_file", std::filesystem::path(options.tokens_file).filename().string()}}
            : nlohmann::json{{"tokens", options.tokens}};
  } else {
    if (positionals.size() < 2) fail_input("no prompt", "command line", kHowToPrompt);
    prompts.texts = {positionals.back()};
    prompts.description = {{"prompt", positionals.back()}};
    positionals.pop_back();
  }
  if (positionals.empty()) fail_input("no model", "command line", "name at least one");
  return prompts;
}

TokenPrompts tokenise_prompts(const GivenPrompts& given, const std::string& model, const ModelConfig& config,
                              const CommonOptions& common) {
  TokenPrompts made;
  if (given.texts.empty()) {
    PromptOptions options;
    options.tokens = given.tokens;
    options.tokens_file = given.tokens_file;
    Prompts prompts = read_prompts(model, options, common, config);
    made.ids = std::move(prompts.ids);
    made.tokenizer = std::move(prompts.tokenizer);
    if (made.tokenizer) made.beginning = beginning_tokens(*made.tokenizer, common);
    return made;
  }
  made.tokenizer = open_tokenizer(model);
  made.beginning = beginning_tokens(*made.tokenizer, common);
  for (size_t n = 0; n < given.texts.size(); ++n)
    made.ids.push_back(tokenise(given.texts[n], n, made, config));
  return made;
}

std::vector<int64_t> ordinary_tokens(const std::optional<Tokenizer>& tokenizer, int64_t vocabulary) {
  std::vector<int64_t> ids;
  if (!tokenizer) return ids;
  for (int32_t id = 0; id < std::min<int64_t>(tokenizer->size(), vocabulary); ++id) {
    if (!tokenizer->is_special(id) && !tokenizer->piece(id).empty()) ids.push_back(id);
  }
  return ids;
}

}  // namespace openwork
