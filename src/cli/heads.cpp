// openwork heads: the heads of one or more models side by side, as a figure.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/heads_figure.h"
#include "cli/open.h"
#include "cli/verbs.h"

namespace openwork {
namespace {

nlohmann::json head_json(const ModelHeads& model, const CollectedHead& head) {
  nlohmann::json frames = nlohmann::json::array();
  for (const draw::TokenPair& pair : head.frames)
    frames.push_back(fmt::format("{}:{}<-{}", head.place.name(), pair.query, pair.key));
  nlohmann::json result = {{"head", head.place.name()},     {"mass", head.summary.mass},
                           {"peak", head.summary.peak},     {"strength", head.strength},
                           {"blank", head.summary.blank()}, {"frames", frames}};
  if (model.task) result["effect"] = model.task->importance.at(head.place);
  return result;
}

nlohmann::json to_json(const ModelHeads& model) {
  nlohmann::json shown = nlohmann::json::array(), blank = nlohmann::json::array();
  for (const CollectedHead& head : model.collected.shown) shown.push_back(head_json(model, head));
  for (const HeadPlace& place : model.collected.blank) blank.push_back(place.name());
  const int64_t cells = model.collected.shown.empty() ? 0 : model.collected.shown.front().cells.side;
  nlohmann::json result = {{"name", model.name},
                           {"gated", model.gated},
                           {"heads", model.layers * model.heads},
                           {"looked_at", model.collected.looked_at},
                           {"shown", shown},
                           {"blank", blank},
                           {"tokens", model.tokens},
                           {"prompts", model.prompts},
                           {"cells", cells}};
  if (model.task) {
    result["heads_at_threshold"] = model.task->needed;
    result["faithfulness"] = model.task->faithfulness;
  }
  return result;
}

// A preset is a set of defaults; what does not fit together is said before any model is opened.
GivenPrompts settle_options(HeadsOptions& options, std::vector<std::string>& names) {
  if (options.preset == "task" && options.task.empty()) options.task = "copy";
  if (options.order.empty()) options.order = options.preset == "task" ? "importance" : "layer";
  if (options.task.empty()) return take_prompts(names, options.figure.source);
  if (options.preset == "prompt" || options.from >= 0)
    fail_input("a task and a prompt's edges together", "--task", "leave one of them out");
  const PromptSourceOptions& source = options.figure.source;
  if (!source.tokens.empty() || !source.tokens_file.empty())
    fail_input("a task and other prompts together", "--task", "leave --tokens and --tokens-file out");
  if (source.prompts.find_first_not_of("0123456789") != std::string::npos || source.prompts.size() > 6) {
    fail_input(fmt::format("'{}' is no number of prompts", printable(source.prompts, 60)), "--prompts",
               "with --task it is how many to draw");
  }
  return {};
}

nlohmann::json describe_run(const HeadsOptions& options, const GivenPrompts& given,
                            const std::vector<ModelHeads>& models) {
  nlohmann::json files = nlohmann::json::array();
  for (const ModelHeads& model : models) files.push_back(describe_model_files(model.name));
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"models", files},
                   {"device", models.front().device},
                   {"gates", "hard"},
                   {"preset", options.preset},
                   {"order", options.order},
                   {"blank", "mean row sum below 0.01"},
                   {"prompt", given.description}});
  if (models.front().task) protocol["task"] = models.front().task->description;
  return protocol;
}

void run_heads(HeadsOptions& options) {
  apply_common_options(options.common);
  check_figure_output(options.figure);
  std::vector<std::string> names = options.figure.words;
  const GivenPrompts given = settle_options(options, names);
  check_models(names);
  std::vector<ModelHeads> models;
  for (const std::string& name : names)
    models.push_back(look_at_heads(options, given, name, static_cast<int64_t>(names.size())));
  const nlohmann::json protocol = describe_run(options, given, models);
  draw::HeadGrid grid = make_head_grid(options, models);
  grid.caption.note = "Queries downwards, keys to the right. " + describe_protocol(protocol);
  draw::write_figure(draw::draw_head_grid(grid), options.figure.out, options.figure.dpi);
  nlohmann::json list = nlohmann::json::array();
  for (const ModelHeads& model : models) {
    print_result(options.common, fmt::format("{}: {}", model.name, describe_block(options, model)));
    list.push_back(to_json(model));
  }
  print_result(options.common, "wrote " + options.figure.out);
  const nlohmann::json scale = {{"shared", grid.shared_scale},
                                {"low", 0},
                                {"high", draw::shared_scale(grid).high},
                                {"shade", options.shade}};
  write_json_result(options.common, {{"models", list},
                                     {"scale", scale},
                                     {"columns", grid.blocks.front().columns},
                                     {"figure", options.figure.out},
                                     {"protocol", protocol}});
}

void add_choices(CLI::App& verb, HeadsOptions& options) {
  verb.add_option("--preset", options.preset,
                  "sample (even layers, heads 0-15 of a large model), task (the heads it needs), prompt "
                  "(strongest cells framed)")
      ->check(CLI::IsMember({"sample", "task", "prompt"}))
      ->type_name("NAME");
  verb.add_option("--order", options.order, "layer, or importance: largest first")
      ->check(CLI::IsMember({"importance", "layer"}))
      ->type_name("ORDER");
  verb.add_option("--layers", options.layers, "even, odd, 0-7 or 0,2,5 (default: all)")->type_name("LIST");
  verb.add_option("--heads", options.heads, "0-15 in each layer, or L0H1,L5H5")->type_name("LIST");
  verb.add_option("--top", options.top, "at most N heads of each model, the first in order")
      ->type_name("N")
      ->check(between(1, 1 << 20));
  verb.add_option("--task", options.task,
                  "copy, ioi, greater-than, docstring, opposite or a JSONL file, in place of PROMPT")
      ->type_name("TASK");
  verb.add_option("--circuit", options.circuit,
                  "with --task: a circuit found before (circuit --level head --json FILE)")
      ->type_name("FILE")
      ->needs(verb.get_option("--task"));
  verb.add_option("--threshold", options.threshold,
                  "share of the task that the shown heads must keep (preset task)")
      ->type_name("X")
      ->check(between(0.01, 1.0))
      ->capture_default_str();
  verb.add_option("--ablation", options.ablation,
                  "zero, mean or interchange: how a task's heads are measured")
      ->check(CLI::IsMember({"zero", "mean", "interchange"}))
      ->type_name("KIND")
      ->capture_default_str();
}

void add_looks(CLI::App& verb, HeadsOptions& options) {
  verb.add_option("--columns", options.columns, "heads in a row")->type_name("N")->check(between(1, 256));
  verb.add_option("--frames", options.frames, "frame the N strongest moves between tokens in red")
      ->type_name("N")
      ->check(between(0, 10000));
  verb.add_option("--from", options.from, "with --to: frame this key position instead")
      ->type_name("POS")
      ->check(between(0, 1 << 24));
  verb.add_option("--to", options.to, "and this query position")
      ->type_name("POS")
      ->check(between(0, 1 << 24));
  verb.add_option("--blank", options.blank, "leave-out or show heads that attend to nothing")
      ->check(CLI::IsMember({"leave-out", "show"}))
      ->type_name("WHAT")
      ->capture_default_str();
  verb.add_option("--scale", options.scale, "shared by all heads, or one for each head")
      ->check(CLI::IsMember({"shared", "head"}))
      ->type_name("WHICH")
      ->capture_default_str();
  verb.add_option("--scale-high", options.scale_high, "value of the darkest blue (default: the largest cell)")
      ->type_name("X")
      ->check(between(1e-6, 1.0));
  verb.add_option("--shade", options.shade, "sqrt shows weak attention, linear is even")
      ->check(CLI::IsMember({"sqrt", "linear"}))
      ->type_name("HOW")
      ->capture_default_str();
}

}  // namespace

void add_heads_verb(CLI::App& app) {
  auto options = std::make_shared<HeadsOptions>();
  CLI::App* verb = app.add_subcommand("heads", "the heads of one or more models side by side, as a figure");
  add_figure_options(*verb, options->figure, "heads.svg");
  add_choices(*verb, *options);
  add_looks(*verb, *options);
  add_common_options(*verb, options->common);
  verb->footer(
      "A head whose rows sum to less than 0.01 on average is blank: left out and counted, or shown empty. "
      "Prompts\n"
      "longer than a panel has cells are averaged into cells. With a task, patterns are the mean over its "
      "clean prompts\n"
      "and importance is the exact effect of ablating the head; without one it is the strongest move between "
      "tokens\n"
      "(or the value at --from, --to).\n"
      "Examples:\n"
      "  openwork heads openwork-8m openwork-8m-sparse \"When Mary and John went to the store\" --out "
      "heads.svg\n"
      "  openwork heads openwork-8m openwork-8m-sparse --preset task --task copy --threshold 0.9 --out "
      "copy.svg\n"
      "  openwork heads dense/ sparse/ \"The opposite of 'large' is '\" --preset prompt --order importance "
      "--top 16 --out prompt.pdf\n"
      "  openwork heads openwork-8m \"a b c a b\" --layers 4-6 --out heads.png --dpi 300");
  verb->callback([options] { run_heads(*options); });
}

}  // namespace openwork
