// openwork run: one forward pass (the next-token table), generation, and saving what a pass computes.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "analyze/save_pass.h"
#include "base/error.h"
#include "cli/common.h"
#include "cli/open.h"
#include "cli/program.h"
#include "cli/prompt_source.h"
#include "cli/verbs.h"
#include "model/generate.h"

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
  GenerateOptions generate;

  RunVerbOptions() { generate.tokens = 0; }  // the next-token table, unless generation is asked for
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
                                const at::Tensor& logits) {
  const at::Tensor wide = logits.to(at::kCPU, at::kDouble);  // [V]
  const at::Tensor probabilities = wide.softmax(0);
  const auto [values, indices] = wide.topk(std::min<int64_t>(options.top, wide.size(0)));
  nlohmann::json rows = nlohmann::json::array();
  for (int64_t n = 0; n < indices.size(0); ++n) {
    const int64_t id = indices[n].item<int64_t>();
    const double probability = probabilities[id].item<double>(), logit = values[n].item<double>();
    print_result(options.common, fmt::format("{:>3}  {:>7.3f} %  {:>9.4f}  {:>7}  {}", n + 1,
                                             100 * probability, logit, id, printable(prompts.piece(id))));
    rows.push_back(
        {{"id", id}, {"token", prompts.piece(id)}, {"logit", logit}, {"probability", probability}});
  }
  return rows;
}

nlohmann::json show_generation(const RunVerbOptions& options, const Transformer& model,
                               const TokenPrompts& prompts, const std::vector<int64_t>& ids) {
  GenerateOptions settings = options.generate;
  settings.seed = options.common.seed;
  const std::vector<int64_t> made = generate(model, ids, settings);
  std::string text;
  if (prompts.tokenizer) text = prompts.tokenizer->decode(std::vector<int32_t>(made.begin(), made.end()));
  print_result(options.common, prompts.tokenizer ? text : fmt::format("{}", fmt::join(made, " ")));
  return {{"ids", made}, {"text", text}};
}

nlohmann::json show_prompt(const RunVerbOptions& options, const Transformer& model,
                           const TokenPrompts& prompts, const std::vector<int64_t>& ids) {
  nlohmann::json pieces = nlohmann::json::array();
  for (const int64_t id : ids) pieces.push_back(prompts.piece(id));
  nlohmann::json result = {{"ids", ids}, {"pieces", pieces}};
  if (options.generate.tokens > 0) {
    result["generated"] = show_generation(options, model, prompts, ids);
    return result;
  }
  const at::NoGradGuard no_grad;
  const at::Tensor batch = at::tensor(ids, at::kLong).unsqueeze(0).to(model.device());
  ForwardOptions forward;
  forward.last_only = true;
  result["top"] = show_next_tokens(options, prompts, model.forward(batch, forward)[0][0]);
  return result;
}

void run_run(const RunVerbOptions& options) {
  apply_common_options(options.common);
  SaveRequest request{options.save, split_list(options.what), split_list(options.cache)};
  check_save_request(request);
  const Transformer model = open_model(options.model, options.common, request.wants("grad"));
  const GivenPrompts given =
      take_prompt(options.has_text ? std::optional(options.text) : std::nullopt, options.source);
  const TokenPrompts prompts = tokenise_prompts(given, options.model, model.config(), options.common);
  if (!options.save.empty()) save_pass(model, batch_of(prompts, model.device()), request);

  nlohmann::json result = {{"prompts", nlohmann::json::array()}};
  for (const auto& ids : prompts.ids) result["prompts"].push_back(show_prompt(options, model, prompts, ids));
  if (options.common.json.empty()) return;
  result["protocol"] = make_protocol(options.common);
  result["protocol"]["device"] = model.device().str();
  result["protocol"]["model"] = describe_model_files(options.model);
  write_json_result(options.common, result);
}

}  // namespace

void add_run_verb(CLI::App& app) {
  auto options = std::make_shared<RunVerbOptions>();
  CLI::App* verb = add_verb(app, "run");
  verb->add_option("MODEL", options->model, "the model")->type_name("")->required();
  CLI::Option* text = verb->add_option("PROMPT", options->text, "the text")->type_name("");
  add_token_options(*verb, options->source);
  verb->add_option("--top", options->top, "rows of the table")
      ->type_name("N")
      ->check(between(1, 1000000))
      ->capture_default_str();
  verb->add_option("--generate", options->generate.tokens, "generate N tokens")
      ->check(between(0, 1000000))
      ->type_name("N");
  verb->add_option("--temperature", options->generate.temperature, "0 takes the most likely token each time")
      ->type_name("X")
      ->check(between(0.0, 1000.0))
      ->capture_default_str();
  verb->add_option("--top-k", options->generate.top_k, "sample among the K most likely; 0: all")
      ->type_name("K")
      ->check(between(0, 1000000));
  verb->add_option("--save", options->save, "write tensors of the pass to this safetensors file")
      ->type_name("FILE");
  verb->add_option("--what", options->what, "which: logits,attention,hidden,loss,grad")
      ->type_name("LIST")
      ->capture_default_str();
  verb->add_option("--cache", options->cache, "also these activations, e.g. blocks.5.attn.hook_z,hook_embed")
      ->type_name("NAME,...");
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork run openwork-8m \"The city of Paris is the capital of\"\n"
      "  openwork run openwork-8m \"Once upon a time\" --generate 40 --temperature 0.8 --seed 1\n"
      "  openwork run openwork-8m --tokens 452,1369,277 --save pass.safetensors --what "
      "logits,attention,grad");
  verb->callback([options, text] {
    options->has_text = text->count() > 0;
    run_run(*options);
  });
}

}  // namespace openwork
