#include "report/transcoder_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/number_text.h"
#include "draw/line_chart.h"

namespace openwork {

draw::Figure draw_replacement(const TranscoderQuality& quality, const std::string& title) {
  const ReplacementCurves& curves = quality.curves;
  std::vector<double> layers(curves.alone.size()), sums(curves.alone.size()), left;
  std::iota(layers.begin(), layers.end(), 0.0);
  std::partial_sum(curves.alone.begin(), curves.alone.end(), sums.begin());
  for (const LayerQuality& layer : quality.layers) left.push_back(1 - layer.explained_variance);
  draw::LineChart chart;
  chart.caption.title = title;
  chart.caption.subtitle = fmt::format(
      "all MLPs replaced: {:+.3f} nats per token; explained variance {:.3f}, {:.1f} active features",
      quality.increase(), quality.mean.explained_variance, quality.mean.active_features);
  chart.caption.note =
      fmt::format("held out, {} of {}", count_of(curves.blocks, "block"), count_of(quality.context, "token"));
  chart.width = 520, chart.height = 260;
  chart.x_name = "layer", chart.y_name = "nats per token above the model", chart.right_name = "not explained";
  chart.y_low = std::min(0.0, *std::min_element(curves.alone.begin(), curves.alone.end())),
  chart.right_low = 0;
  chart.lines = {
      {.name = "layers 0 to it replaced",
       .x = layers,
       .y = curves.up_to,
       .colour = draw::kSparse,
       .dots = true},
      {.name = "each alone, summed", .x = layers, .y = sums, .colour = draw::kDense, .dashes = {4, 3}},
      {.name = "it alone", .x = layers, .y = curves.alone, .colour = draw::kDense, .dots = true},
      {.name = "not explained", .x = layers, .y = left, .colour = draw::kFaint, .on_right = true}};
  return draw::draw_line_chart(chart);
}

}  // namespace openwork
