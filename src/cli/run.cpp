// openwork run: one forward pass (the next-token table), generation, and saving what a pass computes.
#include <fmt/format.h>

#include "analyze/next_tokens.h"
#include "analyze/save_pass.h"
#include "base/error.h"
#include "cli/text_options.h"
#include "cli/verbs.h"
#include "io/model_store.h"
#include "report/captions.h"
#include "report/generated_text_json.h"
#include "report/next_tokens_text.h"
#include "shell/open.h"
#include "shell/prompt_source.h"
#include "text/chat.h"

namespace openwork {
namespace {

struct RunVerbOptions {
  CommonOptions common;
  std::string model;
  std::string text;
  bool has_text = false;
  PromptSourceOptions source;
  std::string save, what = "logits", cache;
  int64_t top = 10;
  TextSettings generation;

  RunVerbOptions() {
    generation.generate.tokens = 0;
  }  // the next-token table, unless generation is asked for
};

// Where a model's tokenizer and template are: an adapter's base has them.
std::filesystem::path chat_folder(const RunVerbOptions& options) {
  return locate_model(options.model).path;
}

TokenPrompts open_prompts(const RunVerbOptions& options, const GivenPrompts& given,
                          const ModelConfig& config) {
  if (!options.generation.chat) return tokenise_prompts(given, options.model, config, options.common);
  if (given.texts.empty())
    fail_input("--chat with token ids", "command line", "give the message as text, or leave --chat out");
  return encode_chat(given, chat_folder(options), open_tokenizer(options.model), options.generation.system,
                     config);
}

// "“The cat sat” (3 tokens)"; without a tokenizer "3 tokens".
std::string name_prompt(const TokenPrompts& prompts, const std::vector<int64_t>& ids) {
  std::string text;
  for (const int64_t id : ids) text += prompts.piece(id);
  return describe_prompts(prompts.tokenizer ? std::vector{text} : std::vector<std::string>(), 1, ids.size());
}

// Every prompt with the table of its next tokens.
nlohmann::json show_tables(const RunVerbOptions& options, const Transformer& model,
                           const TokenPrompts& prompts) {
  nlohmann::json shown = nlohmann::json::array();
  for (const std::vector<int64_t>& ids : prompts.ids) {
    if (prompts.ids.size() > 1)
      print_result(options.common, fmt::format("prompt {}: {}", shown.size() + 1, name_prompt(prompts, ids)));
    const std::vector<NextToken> tokens = likely_tokens(next_logits(model, ids), options.top);
    print_results(options.common, format_next_tokens(tokens, [&](int64_t id) { return prompts.piece(id); }));
    nlohmann::json& one = shown.emplace_back(describe_prompt(prompts, ids));
    for (const NextToken& token : tokens) one["top"].push_back(to_json(token, prompts.piece(token.id)));
  }
  return shown;
}

// Every prompt with its continuation.
nlohmann::json show_texts(const RunVerbOptions& options, const Transformer& model,
                          const TokenPrompts& prompts) {
  TextPrinter printer(options.common, prompts.ids.size());
  std::vector<int64_t> ends;
  if (options.generation.chat) ends = read_end_tokens(chat_folder(options), *prompts.tokenizer);
  const std::vector<GeneratedText> texts = generate_texts(
      model, prompts, options.generation, ends, options.model,
      [&](size_t n, const std::string& piece, const GeneratedText& made) { printer.show(n, piece, made); });
  nlohmann::json shown = nlohmann::json::array();
  for (size_t n = 0; n < texts.size(); ++n) {
    nlohmann::json& one = shown.emplace_back(describe_prompt(prompts, prompts.ids[n]));
    one["generated"] = to_json(texts[n], prompts.tokenizer.has_value());
  }
  return shown;
}

// An option that would do nothing beside the others is refused by name.
void check_run_options(const CLI::App& verb, const RunVerbOptions& options) {
  if (options.save.empty()) refuse_options(verb, {"--what"}, "without --save", "add it, or leave --what out");
  if (!options.generation.chat)
    refuse_options(verb, {"--system"}, "without --chat", "add it, or leave --system out");
  if (options.generation.generate.tokens > 0) {
    if (options.generation.generate.temperature == 0)
      refuse_options(verb, {"--top-k", "--top-p"}, "at temperature 0",
                     "add --temperature X, or leave it out");
    return refuse_options(verb, {"--top"}, "with --generate", "leave one of them out: a text has no table");
  }
  refuse_options(verb, {"--temperature", "--top-k", "--top-p", "--stop"}, "without --generate",
                 "add --generate N, or leave it out");
}

void run_run(RunVerbOptions& options) {
  apply_common_options(options.common);
  options.generation.generate.seed = options.common.seed;
  SaveRequest request{options.save, split_names(options.what), split_names(options.cache)};
  check_save_request(request);
  const GivenPrompts given =
      take_prompt(options.has_text ? std::optional(options.text) : std::nullopt, options.source);
  const Transformer model = open_model(options.model, options.common, request.wants("grad"));
  const TokenPrompts prompts = open_prompts(options, given, model.config());
  if (!options.save.empty()) save_pass(model, batch_of(prompts, model.device()), request);

  const bool generates = options.generation.generate.tokens > 0;
  nlohmann::json result = {
      {"prompts", generates ? show_texts(options, model, prompts) : show_tables(options, model, prompts)}};
  if (!options.save.empty()) print_written(options.common, options.save);
  if (options.common.json.empty()) return;
  result["protocol"] = make_protocol(options.common);
  result["protocol"]["device"] = model.device().str();
  result["protocol"]["model"] = describe_model_files(options.model);
  result["protocol"]["prompt"] = given.description;
  result["protocol"].update(describe_text_settings(options.generation));
  write_json_result(options.common, result);
}

}  // namespace

void add_run_verb(CLI::App& app) {
  auto options = std::make_shared<RunVerbOptions>();
  CLI::App* verb = add_verb(app, "run");
  verb->add_option("MODEL", options->model, "the model")->type_name("")->required();
  CLI::Option* text = verb->add_option("PROMPT", options->text, "the text")->type_name("");
  add_prompt_source_options(*verb, options->source);
  verb->add_option("--top", options->top, "rows of the table")
      ->type_name("N")
      ->check(between(1, 1000000))
      ->capture_default_str();
  add_text_options(*verb, options->generation);
  verb->add_option("--save", options->save, "write tensors of the pass to this safetensors file")
      ->type_name("FILE");
  verb->add_option("--what", options->what, "which: logits,attention,hidden,loss,grad")
      ->type_name("LIST")
      ->capture_default_str();
  verb->add_option("--cache", options->cache, "also these activations, e.g. blocks.5.attn.hook_z,hook_embed")
      ->type_name("NAME,...");
  add_common_options(*verb, options->common);
  verb->footer(
      "Several prompts run in one batch; each gets the tokens it gets alone. With --chat a text ends at the\n"
      "model's end token too; elsewhere --stop '<|endoftext|>' does that. Speed is said on standard error.\n"
      "Examples:\n"
      "  openwork run openwork-8m \"The city of Paris is the capital of\"\n"
      "  openwork run openwork-8m \"Once upon a time\" --generate 40 --temperature 0.8 --top-p 0.95 --seed "
      "1\n"
      "  openwork run openwork-8m --prompts prompts.txt --generate 40 --stop $'\\n' --json texts.json\n"
      "  openwork run smollm2-135m \"Why is the sky blue?\" --chat --generate 200\n"
      "  openwork run openwork-8m --tokens 452,1369,277 --save pass.safetensors --what "
      "logits,attention,grad");
  verb->callback([options, text, verb] {
    options->has_text = text->count() > 0;
    check_run_options(*verb, *options);
    run_run(*options);
  });
}

}  // namespace openwork
