// openwork run: one forward pass (the next-token table), generation, and saving what a pass computes.
#include <fmt/format.h>

#include <sstream>

#include "analyze/next_tokens.h"
#include "analyze/save_pass.h"
#include "base/error.h"
#include "base/token_marks.h"
#include "cli/common.h"
#include "cli/generate_text.h"
#include "cli/open.h"
#include "cli/program.h"
#include "cli/prompt_source.h"
#include "cli/verbs.h"
#include "report/next_tokens_json.h"

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
  TextOptions generation;

  RunVerbOptions() {
    generation.generate.tokens = 0;
  }  // the next-token table, unless generation is asked for
};

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// The most likely next tokens after one prompt, as a table and as JSON.
nlohmann::json show_next_tokens(const RunVerbOptions& options, const TokenPrompts& prompts,
                                const std::vector<NextToken>& tokens) {
  nlohmann::json rows = nlohmann::json::array();
  print_result(options.common, fmt::format("{:>3}  {:>9}  {:>9}  {:>7}  token", "", "share", "logit", "id"));
  for (const NextToken& token : tokens) {
    const std::string text = prompts.piece(token.id);
    print_result(options.common,
                 fmt::format("{:>3}  {:>7.3f} %  {:>9.4f}  {:>7}  {}", rows.size() + 1,
                             100 * token.probability, token.logit, token.id, quote_token(text)));
    rows.push_back(to_json(token, text));
  }
  return rows;
}

nlohmann::json describe_prompt(const TokenPrompts& prompts, const std::vector<int64_t>& ids) {
  nlohmann::json pieces = nlohmann::json::array();
  for (const int64_t id : ids) pieces.push_back(prompts.piece(id));
  return {{"ids", ids}, {"pieces", pieces}};
}

// Every prompt with what follows it: the table of next tokens, or a continuation.
nlohmann::json show_prompts(const RunVerbOptions& options, const Transformer& model,
                            const TokenPrompts& prompts) {
  nlohmann::json shown = nlohmann::json::array(), generated;
  const bool generates = options.generation.generate.tokens > 0;
  if (generates)
    generated = generate_texts(options.common, options.generation, model, options.model, prompts);
  for (size_t n = 0; n < prompts.ids.size(); ++n) {
    nlohmann::json one = describe_prompt(prompts, prompts.ids[n]);
    if (generates)
      one["generated"] = generated[n];
    else
      one["top"] =
          show_next_tokens(options, prompts, likely_tokens(next_logits(model, prompts.ids[n]), options.top));
    shown.push_back(std::move(one));
  }
  return shown;
}

// An option that would do nothing beside the others is refused by name.
void check_run_options(const CLI::App& verb, const RunVerbOptions& options) {
  const auto refuse = [&](const char* name, const char* without) {
    if (verb.get_option(name)->count() > 0)
      fail_input(fmt::format("{} without {}", name, without), "command line",
                 fmt::format("add {}, or leave {} out", without, name));
  };
  if (options.save.empty()) refuse("--what", "--save");
  if (!options.generation.chat) refuse("--system", "--chat");
  if (options.generation.generate.tokens > 0) {
    if (verb.get_option("--top")->count() > 0)
      fail_input("--top with --generate", "command line", "leave one of them out: a text has no table");
    return;
  }
  for (const char* name : {"--temperature", "--top-k", "--top-p", "--stop"}) refuse(name, "--generate");
}

void run_run(const RunVerbOptions& options) {
  apply_common_options(options.common);
  SaveRequest request{options.save, split_list(options.what), split_list(options.cache)};
  check_save_request(request);
  const GivenPrompts given =
      take_prompt(options.has_text ? std::optional(options.text) : std::nullopt, options.source);
  const Transformer model = open_model(options.model, options.common, request.wants("grad"));
  const TokenPrompts prompts = options.generation.chat
                                   ? tokenise_chat(given, options.model, model.config(), options.generation)
                                   : tokenise_prompts(given, options.model, model.config(), options.common);
  if (!options.save.empty()) save_pass(model, batch_of(prompts, model.device()), request);

  nlohmann::json result = {{"prompts", show_prompts(options, model, prompts)}};
  if (!options.save.empty()) print_written(options.common, options.save);
  if (options.common.json.empty()) return;
  result["protocol"] = make_protocol(options.common);
  result["protocol"]["device"] = model.device().str();
  result["protocol"]["model"] = describe_model_files(options.model);
  result["protocol"]["prompt"] = given.description;
  result["protocol"].update(describe_text_options(options.generation));
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
      "  openwork run openwork-8m --prompts prompts.txt --generate 40 --stop \"\\n\" --json texts.json\n"
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
