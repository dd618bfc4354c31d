#include "report/transcoder_report.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "io/interval_json.h"
#include "transcode/transcoder_config.h"

namespace openwork {
namespace {

nlohmann::json layer_json(const LayerQuality& quality) {
  return {{"explained_variance", quality.explained_variance},
          {"explained_variance_after_first", quality.explained_variance_after_first},
          {"active_features", quality.active_features},
          {"dead_share", quality.dead_share},
          {"always_on_share", quality.always_on_share},
          {"first_token_share", quality.first_token_share},
          {"active_replaced", quality.active_replaced}};
}

nlohmann::json options_json(const TranscoderRun& run) {
  const TranscodeOptions& o = run.options;
  return {{"kind", kind_name(o.kind)},
          {"features", o.features},
          {"k", o.k},
          {"input", input_name(o.input)},
          {"activation", o.selection == FeatureSelection::kTopK ? "topk" : "batchtopk"},
          {"bits", run.bits},
          {"context", run.context},
          {"batch_tokens", run.batch_tokens},
          {"steps", o.steps},
          {"minutes", o.minutes},
          {"learning_rate", o.learning_rate},
          {"warmup", o.schedule.warmup},
          {"decay", o.schedule.decay},
          {"dead_after", o.dead_after},
          {"skip", o.skip},
          {"share_k", o.share_k},
          {"joint_share", o.joint_share},
          {"joint_rate", o.joint_rate},
          {"output_weight", o.output_weight},
          {"own_weight", o.own_weight},
          {"ranks", o.ranks->count()},
          {"dtype", run.dtype}};
}

std::string describe_losses(const TranscoderQuality& quality) {
  const ReplacementLosses& losses = quality.losses;
  return fmt::format(
      "nats/token: the model {:.4f}; its MLPs replaced {:.4f} ({:+.4f}, 95 % {}); "
      "MLPs at their mean {:.4f}; none {:.4f}\nmeasured on {} of {}",
      losses.model, losses.replaced, quality.increase(), interval_text(quality.interval, 4),
      losses.mean_output, losses.zero_output, count_of(quality.blocks, "block"),
      count_of(quality.context, "token"));
}

nlohmann::json curves_json(const ReplacementCurves& curves) {
  if (curves.blocks == 0) return nullptr;
  return {{"up_to", curves.up_to}, {"alone", curves.alone}, {"blocks", curves.blocks}};
}

std::string describe_curves(const ReplacementCurves& curves) {
  if (curves.blocks == 0) return "";
  std::string text =
      fmt::format("\nnats/token above the model on the first {}, by layer\n{:<6} {:>14} {:>12}",
                  count_of(curves.blocks, "block"), "layer", "0 to it", "it alone");
  for (size_t n = 0; n < curves.alone.size(); ++n)
    text += fmt::format("\n{:<6} {:>+14.4f} {:>+12.4f}", n, curves.up_to[n], curves.alone[n]);
  return text;
}

}  // namespace

nlohmann::json to_json(const TranscoderQuality& quality) {
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerQuality& layer : quality.layers) layers.push_back(layer_json(layer));
  return {{"layers", layers},
          {"mean", layer_json(quality.mean)},
          {"losses",
           {{"model", quality.losses.model},
            {"replaced", quality.losses.replaced},
            {"increase", quality.increase()},
            {"interval", interval_json(quality.interval)},
            {"mean_output", quality.losses.mean_output},
            {"zero_output", quality.losses.zero_output}}},
          {"curves", curves_json(quality.curves)},
          {"tokens", quality.tokens},
          {"blocks", quality.blocks},
          {"context", quality.context}};
}

std::string to_text(const TranscoderQuality& quality) {
  const auto row = [](const std::string& name, const LayerQuality& layer) {
    return fmt::format("{:<6} {:>18.4f} {:>13.4f} {:>15.1f} {:>12.1f} {:>7.2f} % {:>7.2f} % {:>9.1f} %\n",
                       name, layer.explained_variance, layer.explained_variance_after_first,
                       layer.active_features, layer.active_replaced, 100 * layer.dead_share,
                       100 * layer.always_on_share, 100 * layer.first_token_share);
  };
  std::string text =
      fmt::format("{:<6} {:>18} {:>13} {:>15} {:>12} {:>9} {:>9} {:>11}\n", "layer", "explained variance",
                  "without first", "active features", "all replaced", "dead", "always on", "first error");
  for (size_t n = 0; n < quality.layers.size(); ++n) text += row(std::to_string(n), quality.layers[n]);
  return text + row("mean", quality.mean) + describe_losses(quality) + describe_curves(quality.curves);
}

nlohmann::json to_json(const TranscoderRun& run) {
  nlohmann::json report = to_json(run.quality);
  report.update({{"verb", "transcode"},
                 {"model", run.model},
                 {"command", run.command},
                 {"seed", run.seed},
                 {"options", options_json(run)},
                 {"data", run.data},
                 {"training",
                  {{"steps", run.training.steps},
                   {"tokens", run.training.tokens},
                   {"seconds", run.training.seconds},
                   {"tokens_per_second", run.training.tokens_per_second}}}});
  return report;
}

std::string describe_training(const LoopResult& training) {
  return fmt::format("trained {}, {} tokens, {:.1f} s, {:.0f} tokens/s", count_of(training.steps, "step"),
                     training.tokens, training.seconds, training.tokens_per_second);
}

}  // namespace openwork
