#include "cli/training.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "analyze/measure_run.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/progress.h"
#include "io/sha256.h"
#include "report/training_chart.h"
#include "shell/open.h"
#include "shell/ranks.h"
#include "text/documents.h"
#include "text/prompt_file.h"
#include "train/batches.h"
#include "train/run_options.h"

namespace openwork {

void leave_interrupted(const RunOptions& run, int signal) {
  note(fmt::format("interrupted after a checkpoint; continue with --resume --out {}", run.out.string()));
  run.loop.ranks->leave();
  end_interrupted(signal);
}

nlohmann::json describe_run_model(const RunOptions& run) {
  if (!run.random) return describe_model_files(run.model);
  std::filesystem::path config = run.model_path;
  if (std::filesystem::is_directory(config)) config /= "config.json";
  return {{"name", run.model}, {"path", config.filename().string()}, {"sha256", sha256_of_file(config)}};
}

PreparedData share_data(const TrainingOptions& options, const Tokenizer& tokenizer, int32_t end_of_text,
                        int64_t vocabulary) {
  const DataOptions data = {.files = {options.data.begin(), options.data.end()},
                            .held_out = options.held_out,
                            .max_tokens = options.data_tokens,
                            .folder = options.run.out / "data",
                            .context = options.context,
                            .resumed = options.run.loop.resume};
  PreparedData prepared;
  options.run.loop.ranks->run_first(
      [&] { prepared = prepare_data(data, tokenizer, end_of_text, vocabulary); });
  return options.run.loop.ranks->is_first() ? prepared : open_data(data.folder);
}

void add_run_options(CLI::App& verb, TrainingOptions& options) {
  options.verb = &verb;
  LoopOptions& loop = options.run.loop;
  verb.add_option("--data", options.data, "text, .xz, .zst, JSONL or token shards")
      ->required()
      ->expected(1, 4096)
      ->type_name("FILE...");
  verb.add_option("--out", options.out, "folder of the run: model, checkpoints, metrics, report")
      ->required()
      ->type_name("DIR");
  verb.add_option("--held-out", options.held_out,
                  "what is never trained on: a file, or a share of documents (default: 1 in 250)")
      ->type_name("FILE|SHARE");
  verb.add_option("--held-out-blocks", options.held_out_blocks, "measure on at most N held-out blocks")
      ->check(between(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--data-tokens", options.data_tokens, "read at most about N training tokens (default: all)")
      ->check(between<int64_t>(1, int64_t{1} << 50))
      ->type_name("N");
  verb.add_option("--steps", loop.steps, "length of the run in steps")
      ->check(between<int64_t>(1, int64_t{1} << 40))
      ->type_name("N");
  verb.add_option("--minutes", loop.minutes, "or in minutes of training")
      ->check(between(1e-3, 1e7))
      ->type_name("M");
  verb.add_option("--batch-tokens", options.batch_tokens, "tokens in a step")
      ->check(between<int64_t>(1, int64_t{1} << 32))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--context", options.context,
                  "tokens per sample (default: the model's context, at most 1024)")
      ->check(between(1, 1 << 24))
      ->type_name("N");
  verb.add_option("--lr", options.learning_rate, "peak learning rate")
      ->check(between(1e-12, 10.0))
      ->type_name("X");
  verb.add_option("--warmup", loop.schedule.warmup, "share of the run in which the rate rises")
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--decay", loop.schedule.decay, "share of the run in which it falls to 0")
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--log-every", loop.log_every, "steps per line of metrics.jsonl")
      ->check(between(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--checkpoint-every", loop.checkpoint_every,
                  "steps between checkpoints; 0: at the end alone")
      ->check(between(0, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  verb.add_flag("--resume", loop.resume, "continue from the newest checkpoint of --out");
}

void add_training_options(CLI::App& verb, TrainingOptions& options) {
  add_run_options(verb, options);
  LoopOptions& loop = options.run.loop;
  verb.add_option("--accumulate", loop.accumulate, "passes a step is cut into, on each rank")
      ->check(between(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb.add_flag("--recompute", options.run.weights.recompute,
                "keep no layer's activations: compute them again in the backward pass (less memory)");
  verb.add_option("--weight-decay", loop.adamw.weight_decay, "of matrices other than embeddings")
      ->check(between(0.0, 10.0))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--clip", loop.adamw.clip, "largest norm of the gradient; 0 for none")
      ->check(between(0.0, 1e9))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--measurements", loop.measurements,
                  "measure on the held-out blocks N times on the way, too, for report.svg")
      ->check(between(0, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--save-dtype", options.save_dtype, "of the saved weights: fp32, fp16 or bf16")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string argument, line;
  while (std::getline(file, argument, '\0')) {
    const bool quoted =
        argument.empty() || argument.find_first_of(" \t\n\"'$&|;<>()*?#~`\\") != std::string::npos;
    if (line.empty()) argument = std::filesystem::path(argument).filename().string();
    line += (line.empty() ? "" : " ") + (quoted ? "'" + argument + "'" : argument);
  }
  return printable(line, 4000);
}

void settle_training_options(TrainingOptions& options, int64_t longest) {
  RunOptions& run = options.run;
  LoopOptions& loop = run.loop;
  if ((loop.steps > 0) == (loop.minutes > 0)) {
    fail_input("the length of the run is not clear", "--steps and --minutes", "give one of the two");
  }
  if (options.context == 0)
    options.context = options.lengths.empty()
                          ? std::min<int64_t>(longest, 1024)
                          : *std::max_element(options.lengths.begin(), options.lengths.end());
  if (options.context > longest) {
    fail_input(fmt::format("--context {}", options.context), "training options",
               fmt::format("the model's context is {}", longest));
  }
  loop.lengths = options.lengths;
  LengthPlan(loop.lengths, options.context);  // says what is wrong with them
  loop.ranks = join_ranks(options.common);
  const bool any_gpu = options.memory_only && options.common.device.starts_with("cuda");
  run.weights.device = any_gpu ? at::Device(at::kCUDA, 0) : choose_device(options.common);
  if (options.batch_tokens == 0) options.batch_tokens = run.weights.device.is_cuda() ? 65536 : 16384;
  loop.batch = options.batch_tokens / options.context;
  if (loop.batch < 1 || options.batch_tokens % options.context != 0) {
    fail_input(fmt::format("--batch-tokens {} is not a multiple of --context {}", options.batch_tokens,
                           options.context),
               "training options", "choose a multiple");
  }
  check_schedule(loop.schedule);
  check_batch(loop);
  run.out = options.out;
  run.command = command_line();
  loop.seed = options.common.seed;
  if (options.learning_rate > 0) loop.learning_rate = options.learning_rate;
  const bool said = is_given(*options.verb, "--dtype");
  run.weights.dtype = said                           ? choose_dtype(options.common)
                      : run.weights.device.is_cuda() ? at::kBFloat16
                                                     : at::kFloat;
  run.save_dtype = options.save_dtype == "fp16"   ? at::kHalf
                   : options.save_dtype == "bf16" ? at::kBFloat16
                                                  : at::kFloat;
  if (!options.memory_only) loop.ranks->run_first([&] { options.lock = make_run_folder(run); });
}

void run_and_report(TrainingOptions& options, const Tokenizer& tokenizer, int32_t end_of_text,
                    int64_t vocabulary) {
  RunOptions& run = options.run;
  const PreparedData data = share_data(options, tokenizer, end_of_text, vocabulary);
  const TokenBlocks blocks =
      read_blocks({data.held_out}, &tokenizer, end_of_text, options.context, options.held_out_blocks);
  Batches batches(data.train, options.context, run.loop.seed);
  run.data = data.description.value("content", "");
  run.held_out_blocks = blocks.count;
  HeldOutOptions measure;
  measure.seed = options.common.seed;
  measure.prompts = encode_sample_prompts(tokenizer, beginning_tokens(tokenizer, options.common),
                                          options.context, vocabulary);
  measure.ranks = run.loop.ranks.get();
  RunReport report = run_training(run, batches, make_evaluate(blocks, measure));
  if (report.result.training.signal != 0) leave_interrupted(run, report.result.training.signal);
  report.options = describe_options(run, options.context);
  report.data = data.description;
  report.protocol = make_protocol(options.common);
  report.protocol.update({{"device", run.weights.device.str()},
                          {"dtype", run.weights.dtype == at::kFloat ? "fp32" : "bf16"},
                          {"ranks", run.loop.ranks->count()},
                          {"model", describe_run_model(run)},
                          {"data", data.description.value("files", nlohmann::json::array())},
                          {"measured_in", "fp32"},
                          {"gates", "hard"},
                          {"noise", kGateNoise},
                          {"measured_on_the_way_on", std::min(kBlocksOnTheWay, blocks.count)},
                          {"bootstrap", "documents, 2000 draws"}});
  run.loop.ranks->run_first([&] {
    write_figure(draw_training(report), run.out / "report.svg");
    write_report(run.out, report);
  });
  std::string text = to_text(report);
  text.pop_back();
  print_result(options.common, text);
  print_written(options.common, run.out.string());
  write_json_result(options.common, to_json(report));
  run.loop.ranks->leave();
}

}  // namespace openwork
