// openwork heads: the heads of one or more models side by side, as a figure.
#include <fmt/format.h>

#include <optional>

#include "analyze/heads/head_selection.h"
#include "base/number_text.h"
#include "base/progress.h"
#include "cli/heads_options.h"
#include "cli/verbs.h"
#include "report/captions.h"
#include "report/circuit_file.h"
#include "report/circuit_json.h"
#include "report/heads_figure.h"
#include "shell/open.h"
#include "shell/task_options.h"

namespace openwork {
namespace {

// A model's heads, and what the figure and the protocol say about where they come from.
struct LookedAt {
  ModelHeads heads;
  std::string device, subtitle;
  nlohmann::json task;  // for the protocol; null
};

// The heads the task needs: found, or read from a circuit found before.
TaskHeads open_task_heads(const HeadsOptions& options, const std::string& name, const Transformer& model) {
  const std::string& count = options.figure.source.prompts;
  const Task task = open_task(name, model, {options.task, count.empty() ? 0 : std::stoll(count)},
                              options.common, options.common.seed);
  if (options.circuit.empty()) {
    note(fmt::format("{}: effects of {} heads on {}", name, model.config().layers * model.config().heads,
                     describe_task(task)["task"].get<std::string>()));
    return find_described_heads(model, task, options.ablation, options.threshold, options.common.seed);
  }
  TaskHeads heads = read_task_heads(options.circuit, name, describe_model_files(name), model.config(), task);
  heads.ids = clean_prompts(task, model.device());
  return heads;
}

LookedAt look_at_heads(const HeadsOptions& options, const GivenPrompts& given, const std::string& name,
                       size_t models) {
  const Transformer model = open_model(name, options.common);
  LookedAt result;
  result.device = model.device().str();
  at::Tensor ids;  // [prompts, tokens]
  std::optional<TaskNeeds> task;
  std::vector<std::string> pieces;
  if (!options.task.empty()) {
    const TaskHeads heads = open_task_heads(options, name, model);
    ids = heads.ids;
    task = heads.needs;
    result.task = heads.description;
    result.subtitle = fmt::format("{} task, mean of {} of {}", task->task,
                                  count_of(ids.size(0), "clean prompt"), count_of(ids.size(1), "token"));
  } else {
    const TokenPrompts prompts = tokenise_prompts(given, name, model.config(), options.common);
    ids = batch_of(prompts, model.device());
    pieces = prompts.pieces();
    result.subtitle = describe_prompts(given.texts, prompts.ids.size(), prompts.ids.front().size());
  }
  const int64_t tokens = ids.size(1);
  const HeadsSettings settings = settle_heads(options, model.config(), std::move(task), tokens, models);
  note(fmt::format("{}: patterns on {}", name, count_of(tokens, "token")));
  result.heads = collect_heads(model, ids, settings);
  result.heads.name = name;
  result.heads.pieces = std::move(pieces);
  return result;
}

nlohmann::json describe_run(const HeadsOptions& options, const GivenPrompts& given,
                            const std::vector<std::string>& names, const LookedAt& first) {
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"models", describe_models(names)},
                   {"device", first.device},
                   {"gates", "hard"},
                   {"preset", options.preset},
                   {"order", options.order},
                   {"blank", "mean row sum below 0.01"},
                   {"prompt", given.description}});
  if (!first.task.is_null()) protocol["task"] = first.task;
  return protocol;
}

// `pieces` are the tokens of the first model's prompt; none where they are not known.
HeadsLook make_look(const HeadsOptions& options, const std::vector<std::string>& pieces) {
  HeadsLook look;
  look.needed = options.preset == "task";
  look.sample = options.preset == "sample";
  look.whole_layers = options.order == "layer" && options.top == 0 && !options.heads.starts_with('L');
  look.columns = options.columns;
  look.shade = options.shade == "linear" ? draw::Shade::kLinear : draw::Shade::kSquareRoot;
  look.shared_scale = options.scale == "shared";
  look.scale_high = options.scale_high;
  const TokenPair edge{options.to, options.from};
  look.frame_name =
      describe_frames(count_frames(options), options.from >= 0 ? std::optional(edge) : std::nullopt, pieces);
  return look;
}

void run_heads(const CLI::App& verb, HeadsOptions& options) {
  apply_common_options(options.common);
  check_figure_output(options.figure);
  std::vector<std::string> names = options.figure.words;
  const std::string prompts_by = !options.task.empty()      ? "--task"
                                 : options.preset == "task" ? "--preset task"
                                                            : options.figure.source.option();
  const GivenPrompts given = settle_heads_options(verb, options, names);
  check_models(names, prompts_by);
  if (!options.layers.empty() || !options.heads.empty())
    for (const std::string& name : names) select_heads(options.layers, options.heads, read_config_of(name));
  std::vector<ModelHeads> models;
  LookedAt first;
  for (const std::string& name : names) {
    LookedAt one = look_at_heads(options, given, name, names.size());
    models.push_back(std::move(one.heads));
    if (models.size() == 1) first = std::move(one);
  }
  const nlohmann::json protocol = describe_run(options, given, names, first);
  const HeadsLook look = make_look(options, models.front().pieces);
  const draw::HeadGrid grid =
      make_head_grid(models, look,
                     {title_heads(models.front(), look.needed), first.subtitle,
                      "Queries downwards, keys to the right. " + describe_protocol(protocol)});
  draw::write_figure(draw::draw_head_grid(grid), options.figure.out, options.figure.dpi);
  nlohmann::json list = nlohmann::json::array();
  for (const ModelHeads& model : models) {
    print_result(options.common, fmt::format("{}: {}", model.name, describe_heads(model, look.needed)));
    list.push_back(to_json(model));
  }
  print_written(options.common, options.figure.out);
  nlohmann::json scale = {
      {"shared", grid.shared_scale}, {"low", 0}, {"high", nullptr}, {"shade", options.shade}};
  if (grid.shared_scale) scale["high"] = draw::shared_scale(grid).high;
  write_json_result(options.common, {{"models", list},
                                     {"scale", scale},
                                     {"columns", grid.blocks.front().columns},
                                     {"figure", options.figure.out},
                                     {"protocol", protocol}});
}

}  // namespace

void add_heads_verb(CLI::App& app) {
  auto options = std::make_shared<HeadsOptions>();
  CLI::App* verb = add_verb(app, "heads");
  add_heads_options(*verb, *options);
  verb->footer(
      "A head whose rows sum to less than 0.01 on average is blank: an empty frame where heads stand by "
      "layer,\nelsewhere left out and counted. Prompts\n"
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
  verb->callback([options, verb] { run_heads(*verb, *options); });
}

}  // namespace openwork
