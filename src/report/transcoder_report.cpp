#include "report/transcoder_report.h"

#include <fmt/format.h>

#include "transcode/transcoder_config.h"

namespace openwork {
namespace {

nlohmann::json layer_json(const LayerQuality& quality) {
  return {{"explained_variance", quality.explained_variance},
          {"explained_variance_after_first", quality.explained_variance_after_first},
          {"active_features", quality.active_features},
          {"dead_share", quality.dead_share}};
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
          {"ranks", o.ranks->count()},
          {"dtype", run.dtype}};
}

std::string describe_losses(const TranscoderQuality& quality) {
  const ReplacementLosses& losses = quality.losses;
  return fmt::format(
      "nats/token: the model {:.4f}; its MLPs replaced {:.4f} ({:+.4f}, 95 % interval {:+.4f} to {:+.4f}); "
      "MLPs at their mean {:.4f}; none {:.4f}\nmeasured on {} blocks of {} tokens",
      losses.model, losses.replaced, quality.increase(), quality.interval.low, quality.interval.high,
      losses.mean_output, losses.zero_output, quality.blocks, quality.context);
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
            {"interval", {quality.interval.low, quality.interval.high}},
            {"mean_output", quality.losses.mean_output},
            {"zero_output", quality.losses.zero_output}}},
          {"tokens", quality.tokens},
          {"blocks", quality.blocks},
          {"context", quality.context}};
}

std::string to_text(const TranscoderQuality& quality) {
  const auto row = [](const std::string& name, const LayerQuality& layer) {
    return fmt::format("{:<6} {:>18.4f} {:>13.4f} {:>15.1f} {:>7.2f} %\n", name, layer.explained_variance,
                       layer.explained_variance_after_first, layer.active_features, 100 * layer.dead_share);
  };
  std::string text = fmt::format("{:<6} {:>18} {:>13} {:>15} {:>9}\n", "layer", "explained variance",
                                 "without first", "active features", "dead");
  for (size_t n = 0; n < quality.layers.size(); ++n) text += row(std::to_string(n), quality.layers[n]);
  return text + row("mean", quality.mean) + describe_losses(quality);
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
  return fmt::format("trained {} steps, {} tokens, {:.1f} s, {:.0f} tokens/s", training.steps,
                     training.tokens, training.seconds, training.tokens_per_second);
}

}  // namespace openwork
