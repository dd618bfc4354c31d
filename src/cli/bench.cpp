// openwork bench: speeds as ratios to a plain way, measured in the same run on the same machine.
#include "bench/benches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "cli/verbs.h"
#include "shell/common.h"
#include "shell/open.h"
#include "shell/task_options.h"

namespace openwork {
namespace {

struct BenchOptions {
  CommonOptions common;
  std::string what;
  BenchSettings settings;
};

struct BenchTable {
  const char* name;
  nlohmann::json (*run)(const BenchSettings&);
};

constexpr BenchTable kBenches[] = {{"load", bench_load},           {"tokenize", bench_tokenize},
                                   {"attention", bench_attention}, {"circuit", bench_circuit},
                                   {"draw", bench_draw},           {"train", bench_train},
                                   {"trace", bench_trace},         {"infer", bench_infer}};

// Options that not every benchmark has a use for.
struct BenchOption {
  const char* name;
  std::vector<std::string> benches;
};

const std::vector<BenchOption>& bench_options() {
  static const std::vector<BenchOption> options = {
      {"--model", {"load", "tokenize", "train", "infer", "circuit", "trace"}},
      {"--sparse", {"infer"}},
      {"--pruned", {"infer"}},
      {"--longest", {"infer"}},
      {"--data", {"tokenize", "infer"}},
      {"--python", {"tokenize"}},
      {"--long", {"attention"}},
      {"--shape", {"attention"}},
      {"--samples", {"train"}},
      {"--context", {"train"}},
      {"--lora", {"train"}},
      {"--lora-full", {"train"}},
      {"--profile", {"train"}}};
  return options;
}

void check_options(const CLI::App& verb, const std::string& what) {
  for (const auto& [name, benches] : bench_options()) {
    if (std::find(benches.begin(), benches.end(), what) == benches.end())
      refuse_options(verb, {name}, "with bench " + what,
                     fmt::format("it is of bench {}: leave it out", fmt::join(benches, ", ")));
  }
}

void settle(BenchOptions& options) {
  const CommonOptions& common = options.common;
  BenchSettings& settings = options.settings;
  settings.seed = common.seed;
  settings.device = choose_device(common);
  settings.dtype = choose_dtype(common);
  settings.say = [&](const std::string& line) { print_result(common, line); };
  settings.open_model = [&](at::ScalarType dtype) {
    CommonOptions in_dtype = common;
    in_dtype.dtype = dtype == at::kBFloat16 ? "bf16" : "fp32";
    return open_model(settings.model, in_dtype);
  };
  settings.open_named = [&](const std::string& name) { return open_model(name, common); };
  settings.open_tokenizer = [&] { return open_tokenizer(settings.model); };
  settings.open_task = [&](const std::string& name, const Transformer& model) {
    return open_task(settings.model, model, {name, 0}, common, common.seed);
  };
  settings.describe_model = [&] { return describe_model_files(settings.model); };
  settings.describe_named = [](const std::string& name) { return describe_model_files(name); };
}

void run_bench(const CLI::App& verb, BenchOptions& options) {
  apply_common_options(options.common);
  for (const BenchTable& bench : kBenches) {
    if (options.what != bench.name) continue;
    check_options(verb, options.what);
    settle(options);
    nlohmann::json result = bench.run(options.settings);
    result["bench"] = options.what;
    result["protocol"].update(make_protocol(options.common));
    write_json_result(options.common, result);
    return;
  }
  fail_input(fmt::format("unknown benchmark '{}'", printable(options.what)), "bench",
             "use load, tokenize, attention, train, infer, circuit, draw or trace");
}

}  // namespace

void add_bench_verb(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* verb = add_verb(app, "bench");
  verb->add_option("WHAT", options->what, "load, tokenize, attention, train, infer, circuit, draw or trace")
      ->required();
  verb->add_option(
          "--model", options->settings.model,
          "the model (load, infer, circuit, trace), tokenizer (tokenize) or shape (train: openwork-8m, "
          "gpt2, smollm2-135m, olmo-7b)")
      ->capture_default_str();
  verb->add_option("--sparse", options->settings.sparse, "the gated twin of --model (infer)")
      ->capture_default_str();
  verb->add_option("--pruned", options->settings.pruned,
                   "a pruned twin (infer; default: --sparse without the heads that open no gate on the text)")
      ->type_name("DIR");
  verb->add_option(
          "--data", options->settings.data,
          "text to tokenize (tokenize) or to read (infer); without it the sample prompts, over and over")
      ->type_name("FILE");
  verb->add_option("--python", options->settings.python,
                   "a Python with the tokenizers package, to measure beside (tokenize)");
  verb->add_flag("--long", options->settings.long_run, "also the largest shapes (attention)");
  verb->add_option("--shape", options->settings.shape,
                   "one shape of your own: sequences, heads, tokens, size of a head (attention)")
      ->type_name("B,H,T,D")
      ->delimiter(',')
      ->expected(4)
      ->check(between(1, 1 << 20))
      ->excludes("--long");
  verb->add_option("--longest", options->settings.longest, "tokens of the longest prompt (infer)")
      ->type_name("N")
      ->check(between(2, 1 << 20))
      ->capture_default_str();
  verb->add_option("--repeats", options->settings.repeats, "timed repetitions; the median counts")
      ->type_name("N")
      ->check(between(1, 1000))
      ->capture_default_str();
  verb->add_option("--samples", options->settings.samples, "samples in a pass (train)")
      ->type_name("N")
      ->check(between(1, 65536))
      ->capture_default_str();
  verb->add_option("--context", options->settings.context, "tokens in a sample (train)")
      ->type_name("N")
      ->check(between(2, 1 << 20))
      ->capture_default_str();
  verb->add_option("--lora", options->settings.lora,
                   "train low-rank changes of this rank instead of all weights (train)")
      ->type_name("R")
      ->check(between(1, 4096));
  verb->add_option("--lora-full", options->settings.lora_full,
                   "but whole weights of these modules: attention, mlp, or names (train)")
      ->delimiter(',')
      ->type_name("NAME,...")
      ->needs("--lora");
  verb->add_option("--profile", options->settings.profile,
                   "write traces of one dense and one gated step into DIR, for chrome://tracing (train)")
      ->type_name("DIR");
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork bench load --model openwork-8m\n"
      "  openwork bench tokenize --data text.txt --python python3\n"
      "  openwork bench attention --device cuda --json attention.json\n"
      "  openwork bench attention --device cuda --shape 1,12,16384,64\n"
      "  openwork bench infer --model openwork-8m --sparse openwork-8m-sparse --device cpu\n"
      "  openwork bench train --model gpt2 --device cuda --repeats 20");
  verb->callback([options, verb] { run_bench(*verb, *options); });
}

}  // namespace openwork
