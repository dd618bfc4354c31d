// openwork ablate: what each head (or a head's query, key or value, or each MLP, or named parts) is worth to
// a task.
#include <fmt/format.h>

#include "analyze/circuits/ablation_effects.h"
#include "base/error.h"
#include "cli/verbs.h"
#include "report/ablation_figure.h"
#include "report/ablation_json.h"
#include "report/ablation_text.h"
#include "report/circuit_json.h"
#include "shell/open.h"
#include "shell/ranks.h"
#include "shell/task_options.h"

namespace openwork {
namespace {

struct AblateOptions {
  CommonOptions common;
  TaskOptions task;
  std::string model, ablation = "mean", of = "heads", only, sweep, out;
  int64_t top = 20;
};

AblationSettings make_settings(const AblateOptions& options, const Transformer& model, const Task& task) {
  AblationSettings settings{.ablation = parse_ablation(options.ablation),
                            .of = parse_sweep(options.of),
                            .seed = options.common.seed};
  for (const std::string& name : split_names(options.only))
    settings.only.push_back(parse_part(name, model.config(), task.last_read() + 1));
  return settings;
}

// Effects of heads alone have rows and columns; those of named parts are a list.
void check_output(const AblateOptions& options) {
  if (options.out.empty()) return;
  draw::format_of(options.out);
  if (options.of == "mlp" || !options.only.empty())
    fail_input("--out without all heads", "command line", "leave out --only and --of mlp, or --out");
}

void run_ablate(AblateOptions& options) {
  apply_common_options(options.common);
  nlohmann::json protocol = make_protocol(options.common);  // before ranks take their part of the threads
  const std::shared_ptr<Ranks> ranks = join_ranks(options.common);
  check_output(options);
  parse_ablation(options.ablation);  // refused before the model is read
  const Transformer model = open_model(options.model, options.common);
  const Task task = open_task(options.model, model, options.task, options.common, options.common.seed);
  const AblationSettings settings = make_settings(options, model, task);

  protocol.update(describe_task(task));
  protocol.update({{"device", model.device().str()},
                   {"ablation", options.ablation},
                   {"bootstrap", "prompts, 2000 draws"},
                   {"model", describe_model_files(options.model)}});
  KeptSweep kept(options.sweep, options.common, protocol, *ranks);
  kept.guard([&] {
    const AblationRecord record = measure_effects(model, task, settings, kept.sweep());
    print_results(options.common, format_effects(record, options.top));
    nlohmann::json result = to_json(record);
    result["protocol"] = protocol;
    result["protocol"]["ranks"] = ranks->count();
    if (!options.out.empty() && options.common.speaks) {
      draw::write_figure(draw_effects(result, options.model), options.out);
      print_written(options.common, options.out);
    }
    write_json_result(options.common, result);
    kept.sweep().finish();
  });
}

}  // namespace

void add_ablate_verb(CLI::App& app) {
  auto options = std::make_shared<AblateOptions>();
  CLI::App* verb = add_verb(app, "ablate");
  verb->add_option("MODEL", options->model, "the model")->type_name("")->required();
  add_task_options(*verb, options->task);
  verb->add_option("--ablation", options->ablation,
                   "zero, mean (over the corrupt prompts, per position) or interchange")
      ->type_name("KIND")
      ->capture_default_str();
  verb->add_option("--of", options->of, "heads, their inputs q, k or v, or mlp")
      ->check(CLI::IsMember({"heads", "q", "k", "v", "mlp"}))
      ->capture_default_str();
  verb->add_option("--only", options->only, "only these parts: L5H1, L5H1<q>, m3, L5H1:8<-5")
      ->check(names_something())
      ->type_name("NAME,...")
      ->excludes("--of");
  verb->add_option("--top", options->top, "rows of the table")
      ->type_name("N")
      ->check(between(1, 1000000))
      ->capture_default_str();
  verb->add_option("--out", options->out, "effects of heads as .svg, .png or .pdf")->type_name("FILE");
  add_sweep_option(*verb, options->sweep);
  add_common_options(*verb, options->common);
  verb->footer(
      "An interrupted sweep goes on where it was when the same command is given again.\n"
      "Examples:\n"
      "  openwork ablate openwork-8m --task copy\n"
      "  openwork ablate openwork-8m --task ioi --ablation interchange --prompts 100 --json effects.json\n"
      "  openwork ablate openwork-8m --task mine.jsonl --only 'L5H6,L6H0<k>,m3,L6H0:30<-5'");
  verb->callback([options] { run_ablate(*options); });
}

}  // namespace openwork
