#include "draw/panel.h"

#include <algorithm>
#include <cmath>

#include "draw/figure.h"

namespace openwork::draw {
namespace {

constexpr double kTickSize = 7, kNameSize = 8, kTickLength = 2.5, kGap = 3;

TextStyle tick_style(Align align, Level level) {
  return {.size = kTickSize, .colour = kFaint, .align = align, .level = level};
}

double widest_label(const Axis& axis) {
  double width = 0;
  for (const Tick& tick : axis.ticks)
    width = std::max(width, measure_text(tick.label, {.size = kTickSize}).width);
  return width;
}

double side_room(const Axis& axis) {
  return widest_label(axis) + kTickLength + kGap + (axis.name.empty() ? 2 : kNameSize + 6);
}

}  // namespace

Axis Axis::linear(std::string name, double low, double high, int wanted) {
  return {std::move(name), low, high, false, choose_ticks(low, high, wanted)};
}

Axis Axis::logarithm(std::string name, double low, double high) {
  return {std::move(name), low, high, true, choose_log_ticks(low, high)};
}

Axis Axis::places(std::string name, const std::vector<std::string>& labels) {
  Axis axis{std::move(name), 0, std::max(1.0, static_cast<double>(labels.size())), false, {}};
  for (size_t n = 0; n < labels.size(); ++n) axis.ticks.push_back({static_cast<double>(n) + 0.5, labels[n]});
  return axis;
}

Axis Axis::around(std::string name, const std::vector<double>& values, bool from_zero) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value), high = std::max(high, value);
  }
  if (low > high) low = 0, high = 1;
  if (from_zero) low = std::min(low, 0.0), high = std::max(high, 0.0);
  const double room = high > low ? 0.04 * (high - low) : std::max(0.5 * std::abs(high), 1e-9);
  if (!(from_zero && low == 0)) low -= room;
  return linear(std::move(name), low, high + room);
}

double Axis::share(double value) const {
  if (logarithmic)
    return (std::log(std::max(value, 1e-300)) - std::log(low)) / (std::log(high) - std::log(low));
  return high > low ? (value - low) / (high - low) : 0.5;
}

Panel::Panel(const Rect& area, Axis x, Axis y, std::optional<Axis> right)
    : area_(area), x_(std::move(x)), y_(std::move(y)), right_(std::move(right)) {
  const double left_room = side_room(y_), right_room = right_ ? side_room(*right_) : 6;
  const double width = area.width - left_room - right_room;
  const double label = widest_label(x_);
  turned_ = x_.ticks.size() > 1 && label > 0.95 * width / static_cast<double>(x_.ticks.size()) && label > 12;
  const double below =
      (turned_ ? label : kTickSize + 2) + kTickLength + kGap + (x_.name.empty() ? 0 : kNameSize + 4);
  plot_ = area.inset(left_room, 4, right_room, below);
}

Point Panel::at(double x, double y) const {
  return {plot_.x + x_.share(x) * plot_.width, plot_.bottom() - y_.share(y) * plot_.height};
}

Point Panel::at_right(double x, double y) const {
  return {plot_.x + x_.share(x) * plot_.width, plot_.bottom() - right_.value_or(y_).share(y) * plot_.height};
}

void Panel::paint_axes(Canvas& canvas) const {
  for (const Tick& tick : y_.ticks) {
    const double y = at(x_.low, tick.value).y;
    canvas.line({plot_.x, y}, {plot_.right(), y}, {kHairline.with_alpha(0.6), 0.4});
  }
  paint_x_axis(canvas);
  paint_y_axis(canvas, y_, false);
  if (right_) paint_y_axis(canvas, *right_, true);
  canvas.frame(plot_, {kHairline, 0.6});
}

void Panel::paint_x_axis(Canvas& canvas) const {
  double free_from = -1e9;
  for (const Tick& tick : x_.ticks) {
    const double x = plot_.x + x_.share(tick.value) * plot_.width;
    canvas.line({x, plot_.bottom()}, {x, plot_.bottom() + kTickLength}, {kFaint, 0.5});
    const double room = turned_ ? kTickSize + 1 : canvas.measure(tick.label, {.size = kTickSize}).width + 2;
    if (x - room / 2 < free_from) continue;
    free_from = x + room / 2;
    TextStyle style =
        tick_style(turned_ ? Align::kEnd : Align::kMiddle, turned_ ? Level::kMiddle : Level::kTop);
    style.turn = turned_ ? -90 : 0;
    canvas.write({x, plot_.bottom() + kTickLength + 1}, tick.label, style);
  }
  canvas.write({plot_.centre().x, area_.bottom()}, x_.name,
               {.size = kNameSize, .align = Align::kMiddle, .level = Level::kBottom});
}

void Panel::paint_y_axis(Canvas& canvas, const Axis& axis, bool on_right) const {
  const double edge = on_right ? plot_.right() : plot_.x, outward = on_right ? 1 : -1;
  double free_below = 1e9;
  for (const Tick& tick : axis.ticks) {
    const double y = plot_.bottom() - axis.share(tick.value) * plot_.height;
    canvas.line({edge, y}, {edge + outward * kTickLength, y}, {kFaint, 0.5});
    if (y + kTickSize / 2 > free_below) continue;
    free_below = y - kTickSize / 2;
    canvas.write({edge + outward * (kTickLength + 2), y}, tick.label,
                 tick_style(on_right ? Align::kStart : Align::kEnd, Level::kMiddle));
  }
  const double x = on_right ? area_.right() - kNameSize / 2 - 1 : area_.x + kNameSize / 2 + 1;
  canvas.write({x, plot_.centre().y}, axis.name,
               {.size = kNameSize, .align = Align::kMiddle, .level = Level::kMiddle, .turn = -90.0});
}

}  // namespace openwork::draw
