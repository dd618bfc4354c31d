#include "report/suite_figure.h"

#include <fmt/format.h>

#include "base/interval_text.h"
#include "draw/line_chart.h"
#include "draw/panel.h"
#include "report/captions.h"

namespace openwork {
namespace {

constexpr double kChartWidth = 380, kChartHeight = 270;

const SuiteTestResult* find_result(const SuiteModel& model, const std::string& test) {
  for (const SuiteTestResult& result : model.tests) {
    if (result.name == test && result.left_out.empty()) return &result;
  }
  return nullptr;
}

draw::Figure draw_axis_test(const std::vector<SuiteModel>& models, const SuiteTestResult& test) {
  draw::LineChart chart;
  chart.width = kChartWidth, chart.height = kChartHeight;
  chart.caption.title = test.name;
  chart.caption.subtitle = test.about;
  chart.x_name = test.axis, chart.x_logarithmic = true;
  chart.y_name = test.is_accuracy ? "accuracy" : "nats per token";
  if (test.is_accuracy) chart.y_low = 0, chart.y_high = 1;
  if (test.chance > 0) chart.marks.push_back({.x = {}, .y = test.chance, .label = "chance"});
  const std::vector<std::string> names = short_names_of(models);
  for (size_t n = 0; n < models.size(); ++n) {
    const SuiteTestResult* result = find_result(models[n], test.name);
    if (!result) continue;
    draw::Line line{.name = names[n], .colour = draw::model_colour(n, models.size()), .dots = true};
    for (const SuiteBinResult& bin : result->bins) {
      line.x.push_back(bin.at), line.y.push_back(bin.mean);
      line.low.push_back(bin.interval.low), line.high.push_back(bin.interval.high);
    }
    chart.lines.push_back(std::move(line));
  }
  return draw::draw_line_chart(chart);
}

struct PlainRow {
  std::string test, bin, label;
};

// Tests without an axis, a place for each bin.
std::vector<PlainRow> list_plain_rows(const SuiteModel& model) {
  std::vector<PlainRow> rows;
  for (const SuiteTestResult& test : model.tests) {
    if (!test.axis.empty()) continue;
    for (const SuiteBinResult& bin : test.bins)
      rows.push_back({test.name, bin.name, test.bins.size() == 1 ? test.name : test.name + ", " + bin.name});
  }
  return rows;
}

// Dots with their intervals, models side by side at each place.
draw::Figure draw_plain_tests(const std::vector<SuiteModel>& models, const std::vector<PlainRow>& rows) {
  const draw::Caption caption{"other tests", "accuracy; bars are 95 % intervals", ""};
  const double height = kChartHeight + 60;
  const auto paint = [=](draw::Canvas& canvas) {
    const draw::Rect area = draw::paint_caption(canvas, {0, 0, kChartWidth, height}, caption);
    std::vector<std::string> labels;
    for (const PlainRow& row : rows) labels.push_back(row.label);
    const draw::Panel panel(area, draw::Axis::places("", labels), draw::Axis::linear("accuracy", 0, 1));
    panel.paint_axes(canvas);
    for (size_t m = 0; m < models.size(); ++m) {
      const draw::Colour colour = draw::model_colour(m, models.size());
      for (size_t n = 0; n < rows.size(); ++n) {
        const SuiteTestResult* result = find_result(models[m], rows[n].test);
        if (!result) continue;
        for (const SuiteBinResult& bin : result->bins) {
          if (bin.name != rows[n].bin) continue;
          const double x =
              static_cast<double>(n) + static_cast<double>(m + 1) / static_cast<double>(models.size() + 1);
          if (exists(bin.interval))
            canvas.line(panel.at(x, bin.interval.low), panel.at(x, bin.interval.high),
                        {.colour = colour, .width = 1});
          canvas.fill_circle(panel.at(x, bin.mean), 2.2, colour);
        }
      }
    }
  };
  return {kChartWidth, height, paint};
}

}  // namespace

draw::Figure draw_suite(const std::vector<SuiteModel>& models, const std::string& protocol) {
  std::vector<draw::Figure> figures;
  for (const SuiteTestResult& test : models.front().tests) {
    if (test.left_out.empty() && !test.axis.empty()) figures.push_back(draw_axis_test(models, test));
  }
  const std::vector<PlainRow> rows = list_plain_rows(models.front());
  if (!rows.empty()) figures.push_back(draw_plain_tests(models, rows));
  return draw::arrange_figures(std::move(figures), 2,
                               {"Capability", "bands and bars: 95 % intervals", protocol});
}

}  // namespace openwork
