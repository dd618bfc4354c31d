// openwork bench: speeds as ratios to a plain way, measured in the same run on the same machine.
#include "cli/bench.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/verbs.h"

namespace openwork {
namespace {

struct BenchTable {
  const char* name;
  nlohmann::json (*run)(const BenchOptions&);
};

constexpr BenchTable kBenches[] = {{"load", bench_load},       {"tokenize", bench_tokenize}, {"attention", bench_attention_verb},
                                   {"circuit", bench_circuit}, {"draw", bench_draw},         {"train", bench_train},
                                   {"trace", bench_trace}};

void run_bench(const BenchOptions& options) {
  apply_common_options(options.common);
  for (const BenchTable& bench : kBenches) {
    if (options.what != bench.name) continue;
    nlohmann::json result = bench.run(options);
    result["bench"] = options.what;
    result["protocol"].update(make_protocol(options.common));
    write_json_result(options.common, result);
    return;
  }
  fail_input(fmt::format("unknown benchmark '{}'", printable(options.what)), "bench", "use load, tokenize, attention, train, circuit, draw or trace");
}

}  // namespace

void add_bench_verb(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* verb = app.add_subcommand("bench", "speeds as ratios to a plain way, measured in the same run");
  verb->add_option("WHAT", options->what, "load, tokenize, attention, train, circuit, draw or trace")->required();
  verb->add_option("--model", options->model, "the model (load, circuit, trace), tokenizer (tokenize) or shape (train: openwork-8m, gpt2, smollm2-135m, olmo-7b)")->capture_default_str();
  verb->add_option("--data", options->data, "text to tokenize (tokenize)")->type_name("FILE");
  verb->add_option("--python", options->python, "a Python with the tokenizers package, to measure beside (tokenize)");
  verb->add_flag("--long", options->long_run, "also the largest shapes (attention)");
  verb->add_option("--repeats", options->repeats, "timed repetitions; the median counts")->type_name("N")->check(between(1, 1000))->capture_default_str();
  verb->add_option("--samples", options->samples, "samples in a pass (train)")->type_name("N")->check(between(1, 65536))->capture_default_str();
  verb->add_option("--context", options->context, "tokens in a sample (train)")->type_name("N")->check(between(2, 1 << 20))->capture_default_str();
  verb->add_option("--lora", options->lora, "train low-rank changes of this rank instead of all weights (train)")->type_name("R")->check(between(1, 4096));
  verb->add_option("--profile", options->profile, "write a trace of one gated step, for chrome://tracing (train)")->type_name("FILE");
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork bench load --model openwork-8m\n"
      "  openwork bench tokenize --data text.txt --python python3\n"
      "  openwork bench attention --device cuda --json attention.json\n"
      "  openwork bench train --model gpt2 --device cuda --repeats 20");
  verb->callback([options] { run_bench(*options); });
}

}  // namespace openwork
