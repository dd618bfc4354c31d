#include "cli/heads_options.h"

#include <fmt/format.h>

#include "base/error.h"
#include "shell/task_options.h"

namespace openwork {
namespace {

void add_choices(CLI::App& verb, HeadsOptions& options) {
  verb.add_option("--preset", options.preset,
                  "sample (even layers, heads 0-15 of a large model), task (the heads it needs), prompt "
                  "(strongest cells framed)")
      ->check(CLI::IsMember({"sample", "task", "prompt"}))
      ->type_name("NAME");
  verb.add_option("--order", options.order, "layer, or importance: largest first")
      ->check(CLI::IsMember({"importance", "layer"}))
      ->type_name("ORDER");
  verb.add_option("--layers", options.layers, "even, odd, 0-7 or 0,2,5 (default: all)")
      ->check(names_something())
      ->type_name("LIST");
  verb.add_option("--heads", options.heads, "0-15 in each layer, or L0H1,L5H5")
      ->check(names_something())
      ->type_name("LIST");
  verb.add_option("--top", options.top, "at most N heads of each model, the first in order")
      ->type_name("N")
      ->check(between(1, 1 << 20));
  verb.add_option("--task", options.task,
                  "copy, ioi, greater-than, docstring, opposite or a JSONL file, in place of PROMPT")
      ->check(task_name())
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
  verb.add_option("--blank", options.blank,
                  "leave-out or show heads that attend to nothing (default: show where heads stand by layer)")
      ->check(CLI::IsMember({"leave-out", "show"}))
      ->type_name("WHAT");
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

void add_heads_options(CLI::App& verb, HeadsOptions& options) {
  add_figure_options(verb, options.figure, "heads.svg");
  CLI::Option* const prompts = verb.get_option("--prompts");
  prompts->description(prompts->get_description() + "; with --task: how many to draw");
  add_choices(verb, options);
  add_looks(verb, options);
  add_common_options(verb, options.common);
}

GivenPrompts settle_heads_options(const CLI::App& verb, HeadsOptions& options,
                                  std::vector<std::string>& names) {
  if (options.preset == "task" && options.task.empty()) options.task = "copy";
  if (options.scale == "head")
    refuse_options(verb, {"--scale-high"}, "with --scale head", "use --scale shared, or leave it out");
  if (options.order.empty()) options.order = options.preset == "task" ? "importance" : "layer";
  if (options.task.empty()) {
    refuse_options(verb, {"--threshold", "--ablation"}, "without a task", "add --task, or leave it out");
    return take_prompts(names, options.figure.source);
  }
  if (!options.circuit.empty())
    refuse_options(verb, {"--threshold", "--ablation"}, "with --circuit", "the file says both: leave it out");
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

}  // namespace openwork
