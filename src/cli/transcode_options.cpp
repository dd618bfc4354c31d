#include "cli/transcode_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace openwork {
namespace {

// Refuses what is given and not among `fit`; options common to all verbs do no harm.
void refuse_others(const CLI::App& verb, const std::vector<std::string>& fit, const std::string& why) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (!name.starts_with("--") || option->get_group() == kCommonGroup || option->get_group().empty() ||
        std::find(fit.begin(), fit.end(), name) != fit.end())
      continue;
    refuse_options(verb, {name}, why, "nothing is trained there: leave it out");
  }
}

}  // namespace

void add_transcoder_options(CLI::App& verb, TranscodeVerb& options) {
  TranscodeOptions& transcode = options.transcode;
  verb.add_option("--kind", options.kind, "plt: per layer; clt: across layers")
      ->check(CLI::IsMember({"plt", "clt"}))
      ->capture_default_str();
  verb.add_option("--features", transcode.features, "per layer (default: 4 times the model's width)")
      ->check(between<int64_t>(1, int64_t{1} << 24))
      ->type_name("N");
  verb.add_option("--k", transcode.k, "active features per token and layer")
      ->check(between<int64_t>(1, int64_t{1} << 24))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--activation", options.activation,
                  "batchtopk: k per token on average; topk: k of every token; both end as thresholds")
      ->check(CLI::IsMember({"batchtopk", "topk"}))
      ->capture_default_str();
  verb.add_option("--input", options.input,
                  "what encoders read: the normed stream, as MLPs do, or the residual stream")
      ->check(CLI::IsMember({"normed", "residual"}))
      ->capture_default_str();
  verb.add_option("--dead-after", transcode.dead_after,
                  "a feature inactive for N tokens is dead, and is revived")
      ->check(between<int64_t>(1, int64_t{1} << 50))
      ->type_name("N")
      ->capture_default_str();
  verb.add_flag("--skip", transcode.skip,
                "train a linear path from input to output beside the features (plt)");
  verb.add_flag("--share-k", transcode.share_k, "k is the mean over layers: those that need more have more");
  verb.add_option("--joint-share", transcode.joint_share,
                  "of the run, its last part: all layers trained together in the replaced model, against the "
                  "model's own predictions")
      ->check(between<double>(0, 1))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--joint-rate", transcode.joint_rate, "the learning rate there, over --lr")
      ->check(between<double>(1e-6, 1e6))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--output-weight", transcode.output_weight,
                  "of the layers' own outputs beside the predictions, there")
      ->check(between<double>(0, 1e6))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--own-weight", transcode.own_weight,
                  "and of those they have on the model's own inputs: keeps explained variance")
      ->check(between<double>(0, 1e6))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--start", options.start, "begin from the features of this folder")->type_name("FOLDER");
  verb.add_option("--bits", options.bits, "of the saved matrices: 32, or 4 to 8 with a scale per row")
      ->check(CLI::IsMember({4, 5, 6, 7, 8, 32}))
      ->capture_default_str();
  verb.add_option("--describe", options.describe,
                  "most active held-out places kept of every feature, in features.json.zst; 0: none "
                  "(default: 5; with --measure: 0)")
      ->check(between<int64_t>(0, 1000))
      ->type_name("N");
  verb.add_option(
          "--curve-blocks", options.curve_blocks,
          "--measure: blocks that the loss with layers 0 to l, and with each alone, is measured on; 0: none")
      ->check(between<int64_t>(0, int64_t{1} << 30))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--details", options.details, "also a JSON file per feature, as public viewers read them")
      ->type_name("DIR");
  verb.add_option("--scan", options.scan, "what public viewers call the set (default: openwork/MODEL-KIND)")
      ->type_name("NAME");
}

void check_transcode_verb(const CLI::App& verb, const TranscodeVerb& options) {
  if (!options.unpack.empty()) {
    refuse_others(verb, {"--unpack", "--out"}, "with --unpack");
    if (options.training.out.empty()) fail_input("--unpack without --out", "command line", "give --out DIR");
    return;
  }
  if (options.training.run.model.empty() || options.training.data.empty()) {
    fail_input("transcode wants a MODEL and --data", "command line", "see openwork transcode --help");
  }
  const bool measure = !options.measure.empty();
  if (measure) {
    refuse_others(verb,
                  {"--measure", "--data", "--out", "--context", "--held-out-blocks", "--describe",
                   "--details", "--curve-blocks"},
                  "with --measure");
  } else {
    refuse_options(verb, {"--curve-blocks"}, "without --measure", "a run draws no curves: leave it out");
  }
  if (options.transcode.joint_share == 0)
    refuse_options(verb, {"--joint-rate", "--output-weight", "--own-weight"}, "without --joint-share",
                   "they are of its part of the run: add it, or leave them out");
  if (!options.details.empty() && options.describe.value_or(measure ? 0 : kUsualContexts) == 0) {
    fail_input("details of features that are not described", "--details", "give --describe N");
  }
  if (!measure && options.training.out.empty()) {
    fail_input("transcode wants a folder for the transcoders", "command line", "give --out DIR");
  }
}

void settle_transcode_options(TranscodeVerb& options, const ModelConfig& config) {
  RunOptions& run = options.training.run;
  TranscodeOptions& transcode = options.transcode;
  transcode.kind = options.kind == "clt" ? TranscoderKind::kCrossLayer : TranscoderKind::kPerLayer;
  transcode.input = options.input == "residual" ? TranscoderInput::kResidual : TranscoderInput::kNormed;
  transcode.selection = options.activation == "topk" ? FeatureSelection::kTopK : FeatureSelection::kBatchTopK;
  if (transcode.features == 0) transcode.features = 4 * config.width;
  if (transcode.k > transcode.features) {
    fail_input(fmt::format("{} of {} features per token", transcode.k, transcode.features),
               "--k and --features", "let --k be at most --features");
  }
  settle_training_options(options.training, config.context);
  transcode.learning_rate = options.training.learning_rate;
  transcode.folder = run.out;
  transcode.seed = run.loop.seed, transcode.batch = run.loop.batch;
  transcode.steps = run.loop.steps, transcode.minutes = run.loop.minutes;
  transcode.schedule = run.loop.schedule;
  transcode.log_every = run.loop.log_every, transcode.checkpoint_every = run.loop.checkpoint_every;
  transcode.resume = run.loop.resume;
  transcode.ranks = run.loop.ranks;
  check_transcode_options(transcode, config);
}

}  // namespace openwork
