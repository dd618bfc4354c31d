#include "report/training_chart.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "draw/line_chart.h"

namespace openwork {
namespace {

using draw::ChartMark;
using draw::Line;
using draw::LineChart;

double millions(int64_t tokens) {
  return static_cast<double>(tokens) / 1e6;
}

std::vector<double> millions(std::vector<double> tokens) {
  for (double& count : tokens) count /= 1e6;
  return tokens;
}

// Since the base: of all points, where there is a frontier.
int64_t all_tokens(const RunReport& report) {
  return report.frontier.empty() ? report.result.training.tokens : report.frontier.back().tokens;
}

// The held-out curve from the base, where there is one, over what was measured on the way to the result.
Line held_out_line(const RunReport& report, double Evaluation::*value,
                   const std::vector<double>& on_the_way) {
  Line line{.name = "held out, hard gates", .colour = draw::kSparse, .dots = true};
  line.x = millions(report.curves.held_out_tokens), line.y = on_the_way;
  line.x.push_back(millions(all_tokens(report)));
  line.y.push_back(report.result.held_out.*value);
  return line;
}

LineChart start_chart(const std::string& y_name) {
  LineChart chart;
  chart.width = 520, chart.height = 240;
  chart.x_name = "tokens, million", chart.y_name = y_name;
  chart.x_low = 0;
  return chart;
}

draw::Figure draw_losses(const RunReport& report) {
  LineChart chart = start_chart("nats per token");
  const TrainingCurves& curves = report.curves;
  chart.lines.push_back(
      {.name = "training", .x = millions(curves.tokens), .y = curves.loss, .colour = draw::kFaint});
  if (!curves.target.empty())
    chart.lines.push_back({.name = "target",
                           .x = millions(curves.tokens),
                           .y = curves.target,
                           .colour = draw::kInk,
                           .dashes = {4, 3}});
  chart.lines.push_back(held_out_line(report, &Evaluation::nats_per_token, curves.held_out_loss));
  if (report.control) {
    Line line{.name = "dense control, held out", .colour = draw::kDense, .dots = true};
    line.x = millions(report.control_curves.held_out_tokens), line.y = report.control_curves.held_out_loss;
    line.x.push_back(millions(report.control->training.tokens));
    line.y.push_back(report.control->held_out.nats_per_token);
    chart.lines.push_back(line);
  }
  if (report.base) {
    chart.marks.push_back({.x = {},
                           .y = report.base->nats_per_token,
                           .label = fmt::format("base {:.4f}", report.base->nats_per_token)});
  }
  return draw_line_chart(chart);
}

draw::Figure draw_kept_edges(const RunReport& report) {
  LineChart chart = start_chart("kept edges, %");
  const auto percent = [](std::vector<double> shares) {
    for (double& share : shares) share *= 100;
    return shares;
  };
  const TrainingCurves& curves = report.curves;
  chart.lines.push_back({.name = "training, gates as drawn",
                         .x = millions(curves.tokens),
                         .y = percent(curves.kept_edges),
                         .colour = draw::kFaint});
  Line line = held_out_line(report, &Evaluation::kept_edges, curves.held_out_kept_edges);
  line.y = percent(line.y);
  chart.lines.push_back(line);
  chart.y_logarithmic = true;
  for (const Line& drawn : chart.lines) {
    for (const double share : drawn.y) chart.y_logarithmic &= share > 0;
  }
  return draw_line_chart(chart);
}

// Kept edges over the held-out loss, a dot for each point of the frontier.
draw::Figure draw_frontier(const RunReport& report) {
  LineChart chart = start_chart("kept edges, %");
  chart.x_name = "held-out loss, nats per token", chart.x_low.reset();
  Line line{.name = "frontier", .colour = draw::kSparse, .dots = true};
  chart.y_logarithmic = true;
  for (const FrontierPoint& point : report.frontier) {
    line.x.push_back(point.model.held_out.nats_per_token);
    line.y.push_back(100 * point.model.held_out.kept_edges);
    chart.y_logarithmic &= line.y.back() > 0;
  }
  chart.lines.push_back(line);
  if (report.control)
    chart.marks.push_back({.x = report.control->held_out.nats_per_token, .y = {}, .label = "dense control"});
  if (report.base) chart.marks.push_back({.x = report.base->nats_per_token, .y = {}, .label = "base"});
  return draw_line_chart(chart);
}

}  // namespace

draw::Figure draw_training(const RunReport& report) {
  std::vector<draw::Figure> figures = {draw_losses(report)};
  if (!report.curves.kept_edges.empty()) figures.push_back(draw_kept_edges(report));
  if (!report.frontier.empty()) figures.push_back(draw_frontier(report));
  const Evaluation& result = report.result.held_out;
  draw::Caption caption;
  caption.title =
      fmt::format("{} of {}", report.verb, std::filesystem::path(report.model).filename().string());
  caption.subtitle = fmt::format("held out: {:.4f} nats per token, {:.3f} % of edges kept",
                                 result.nats_per_token, 100 * result.kept_edges);
  caption.note =
      fmt::format("{} of {}; {} training tokens; seed {}", count_of(result.blocks, "held-out block"),
                  count_of(result.context, "token"), group_digits(all_tokens(report)), report.seed);
  return draw::arrange_figures(std::move(figures), 1, caption);
}

}  // namespace openwork
