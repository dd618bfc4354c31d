// openwork transcode: trains transcoders, sparse features in place of a model's MLPs, on the model's own
// activations.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/transcode_options.h"
#include "cli/verbs.h"
#include "io/atomic_file.h"
#include "io/model_store.h"
#include "model/load.h"
#include "report/transcoder_figure.h"
#include "report/transcoder_report.h"
#include "shell/figure_options.h"
#include "shell/open.h"
#include "shell/ranks.h"
#include "transcode/descriptions.h"
#include "transcode/transcoder_files.h"
#include "transcode/transcoder_folder.h"

namespace openwork {
namespace {

Transformer open_as(const TranscodeVerb& options, at::ScalarType dtype) {
  CommonOptions common = options.training.common;
  common.dtype = dtype == at::kFloat ? "fp32" : "bf16";
  return open_model(options.training.run.model, common);
}

nlohmann::json make_report(const TranscodeVerb& options, const TranscoderQuality& quality,
                           const LoopResult& training, const PreparedData& data) {
  const RunOptions& run = options.training.run;
  nlohmann::json report = to_json(TranscoderRun{.model = run.model,
                                                .command = run.command,
                                                .options = options.transcode,
                                                .bits = options.bits,
                                                .context = options.training.context,
                                                .batch_tokens = options.training.batch_tokens,
                                                .dtype = run.weights.dtype == at::kFloat ? "fp32" : "bf16",
                                                .seed = options.training.common.seed,
                                                .data = data.description,
                                                .training = training,
                                                .quality = quality});
  report["protocol"] = make_protocol(options.training.common);
  report["protocol"].update({{"device", run.weights.device.str()},
                             {"model", describe_model_files(run.model)},
                             {"measured_in", "fp32"},
                             {"ranks", run.loop.ranks->count()},
                             {"bootstrap", "documents, 2000 draws"}});
  return report;
}

// What --start names, held against the model; nothing where it is not given.
std::optional<Transcoders> open_start(const TranscodeVerb& options, const ModelConfig& config) {
  if (options.start.empty()) return std::nullopt;
  Transcoders start = load_transcoders(options.start);
  check_transcoders_fit(start, config, model_hash(locate_model(options.training.run.model)), options.start);
  return start;
}

Transcoders train(TranscodeVerb& options, const PreparedData& data, LoopResult& training) {
  RunOptions& run = options.training.run;
  TranscodeOptions& transcode = options.transcode;
  const std::string hash = model_hash(locate_model(run.model));
  transcode.identity = {{"model", hash}, {"data", data.description.value("content", "")}};
  if (!options.start.empty()) transcode.identity["start"] = model_hash(options.start);
  Batches batches(data.train, options.training.context, transcode.seed);
  TranscodeResult result = train_transcoders(open_as(options, run.weights.dtype), batches, transcode);
  training = result.training;
  if (training.signal != 0) leave_interrupted(run, training.signal);
  result.transcoders.model = run.model;
  result.transcoders.model_sha256 = hash;
  result.transcoders.scan =
      options.scan.empty() ? fmt::format("openwork/{}-{}", run.model, options.kind) : options.scan;
  return std::move(result.transcoders);
}

TranscoderQuality measure_saved(const TranscodeVerb& options, const std::filesystem::path& folder,
                                const TokenBlocks& blocks, const Tokenizer& tokenizer, int64_t contexts) {
  const RunOptions& run = options.training.run;
  return measure_folder(folder, open_as(options, at::kFloat), blocks, tokenizer, *run.loop.ranks,
                        {.model_hash = model_hash(locate_model(run.model)),
                         .contexts = contexts,
                         .details = options.details,
                         .curve_blocks = options.measure.empty() ? 0 : options.curve_blocks,
                         .seed = options.training.common.seed});
}

// Trains, saves, opens what was saved and measures that.
void run_transcode(TranscodeVerb& options) {
  RunOptions& run = options.training.run;
  const ModelConfig config = load_config(locate_model(run.model).path);
  check_transcoder_place(options.training.out);
  const std::optional<Transcoders> start = open_start(options, config);
  if (start) options.transcode.start = &*start;
  const Tokenizer tokenizer = open_tokenizer(run.model);
  settle_transcode_options(options, config);
  const int32_t end = end_of_text(tokenizer, config);
  const PreparedData data = share_data(options.training, tokenizer, end, config.vocabulary);
  const TokenBlocks blocks = read_blocks({data.held_out}, &tokenizer, end, options.training.context,
                                         options.training.held_out_blocks);
  LoopResult training;
  const Transcoders trained = train(options, data, training);
  run.loop.ranks->run_first([&] { save_transcoders(run.out, trained, options.bits); });
  const TranscoderQuality quality =
      measure_saved(options, run.out, blocks, tokenizer, options.describe.value_or(kUsualContexts));
  const nlohmann::json report = make_report(options, quality, training, data);
  run.loop.ranks->run_first([&] { write_text_file(run.out / "report.json", report.dump(1) + "\n"); });
  print_result(options.training.common, to_text(quality));
  print_result(options.training.common, describe_training(training));
  print_written(options.training.common, run.out.string());
  if (!options.details.empty()) print_written(options.training.common, options.details);
  write_json_result(options.training.common, report);
  run.loop.ranks->leave();
}

// Transcoders that are there already, on any text.
void run_measure(TranscodeVerb& options) {
  TrainingOptions& training = options.training;
  if (!training.out.empty()) {
    check_figure_output({.out = training.out});
    if (options.curve_blocks == 0)
      fail_input("no curves to draw", "--curve-blocks", "give 1 or more, or no --out");
  }
  check_transcoder_folder(options.measure);
  const std::shared_ptr<Ranks> ranks = training.run.loop.ranks = join_ranks(training.common);
  const ModelConfig config = load_config(locate_model(training.run.model).path);
  const Tokenizer tokenizer = open_tokenizer(training.run.model);
  const int64_t context = training.context > 0 ? training.context : std::min<int64_t>(config.context, 1024);
  const TokenBlocks blocks = read_blocks({training.data.begin(), training.data.end()}, &tokenizer,
                                         end_of_text(tokenizer, config), context, training.held_out_blocks);
  const TranscoderQuality quality =
      measure_saved(options, options.measure, blocks, tokenizer, options.describe.value_or(0));
  print_result(training.common, to_text(quality));
  if (options.describe.value_or(0) > 0) {
    print_written(training.common, std::filesystem::path(options.measure) / kDescriptionsFile);
    if (!options.details.empty()) print_written(training.common, options.details);
  }
  if (!training.out.empty()) {
    const std::string title = std::filesystem::path(training.run.model).filename().string();
    ranks->run_first([&] { draw::write_figure(draw_replacement(quality, title), training.out); });
    print_written(training.common, training.out);
  }
  nlohmann::json result = to_json(quality);
  result["protocol"] = make_protocol(training.common);
  result["protocol"].update({{"model", describe_model_files(training.run.model)},
                             {"transcoders", std::filesystem::path(options.measure).filename().string()},
                             {"ranks", ranks->count()},
                             {"bootstrap", "documents, 2000 draws"}});
  write_json_result(training.common, result);
  ranks->leave();
}

void unpack(const TranscodeVerb& options) {
  save_transcoders(options.training.out, load_transcoders(options.unpack), kPlainBits);
  print_written(options.training.common, options.training.out);
  write_json_result(options.training.common,
                    {{"out", options.training.out}, {"protocol", make_protocol(options.training.common)}});
}

}  // namespace

void add_transcode_verb(CLI::App& app) {
  auto options = std::make_shared<TranscodeVerb>();
  options->training.run.verb = "transcode";
  options->training.batch_tokens = 8192;
  CLI::App* verb = add_verb(app, "transcode");
  auto* model = verb->add_option("MODEL", options->training.run.model, "the model to train them on");
  verb->add_option("--unpack", options->unpack, "only turn an 8-bit folder into the plain form at --out")
      ->type_name("FOLDER")
      ->excludes(model);
  verb->add_option("--measure", options->measure,
                   "train nothing: measure a folder on --data; nothing is written there unless --describe is "
                   "given. --out FILE.svg draws its curves")
      ->type_name("FOLDER");
  add_transcoder_options(*verb, *options);
  add_run_options(*verb, options->training);
  verb->get_option("--data")->required(false);
  verb->get_option("--out")->required(false)->type_name("DIR, FILE with --measure");
  add_common_options(*verb, options->training.common);
  verb->footer(
      "Ends with explained variance, active and dead features per layer, and the model's loss with all MLPs "
      "replaced:\n"
      "report.json. The folder opens in circuit-tracer where --bits is 32. --lr is 0.03 / sqrt(features) "
      "unless given.\n"
      "Examples:\n"
      "  openwork transcode openwork-8m --data train.txt.xz --features 800 --k 60 --minutes 1 --bits 8 --out "
      "transcoders\n"
      "  openwork transcode smollm2-135m --data text.jsonl --features 4096 --k 32 --minutes 3 --out "
      "smollm2-transcoders\n"
      "  openwork transcode gpt2 --kind clt --features 2048 --data text.jsonl --steps 5000 --out clt "
      "--resume\n"
      "  openwork transcode openwork-8m --measure models/openwork-8m/transcoders --data text.txt\n"
      "  openwork transcode --unpack models/openwork-8m/transcoders --out plain");
  verb->callback([options, verb] {
    apply_common_options(options->training.common);
    check_transcode_verb(*verb, *options);
    if (!options->unpack.empty()) return unpack(*options);
    if (!options->measure.empty()) return run_measure(*options);
    run_transcode(*options);
  });
}

}  // namespace openwork
