// What a picture is painted on. One painting function serves SVG, PDF and PNG (draw/figure.h): coordinates
// are points (1/72 inch), x to the right, y downwards, and the canvas knows nothing about data.
//   canvas.fill(Rect{10, 10, 60, 60}, kSparse);
//   canvas.write({40, 90}, "L5H1", {.size = 7, .align = Align::kMiddle});
// Text is set by Pango in DejaVu Sans (mono on request); scripts that font lacks come from what the machine
// has. SVG carries glyphs as outlines and PDF embeds the fonts, so a figure looks the same everywhere.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "draw/colour.h"
#include "draw/image.h"

typedef struct _cairo cairo_t;

namespace openwork::draw {

struct Point {
  double x = 0, y = 0;
};

struct Rect {
  double x = 0, y = 0, width = 0, height = 0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
  Point centre() const { return {x + width / 2, y + height / 2}; }
  // Smaller by this much on each side (larger where negative).
  Rect inset(double left, double top, double right, double bottom) const {
    return {x + left, y + top, width - left - right, height - top - bottom};
  }
};

struct Stroke {
  Colour colour = kInk;
  double width = 0.75;
  std::vector<double> dashes = {};  // lengths of dash and gap; none: a whole line
};

enum class Align { kStart, kMiddle, kEnd };
enum class Level { kTop, kMiddle, kBottom, kBaseline };  // which height of the text the point is

struct TextStyle {
  double size = 8;  // points
  Colour colour = kInk;
  Align align = Align::kStart;
  Level level = Level::kBaseline;
  bool bold = false, mono = false;
  double turn = 0;   // degrees, clockwise, about the point
  double width = 0;  // above 0: lines are broken to this width
};

struct TextSize {
  double width = 0, height = 0;
};

class Canvas {
 public:
  explicit Canvas(cairo_t* context) : context_(context) {}

  void fill(const Rect& area, const Colour& colour);
  void frame(const Rect& area, const Stroke& stroke);
  void line(Point from, Point to, const Stroke& stroke);
  void polyline(std::span<const Point> points, const Stroke& stroke);
  void curve(Point from, Point bend1, Point bend2, Point to, const Stroke& stroke);  // a Bezier curve
  void fill_polygon(std::span<const Point> points, const Colour& colour);
  void fill_circle(Point centre, double radius, const Colour& colour);
  void fill_rounded(const Rect& area, double radius, const Colour& colour);
  // Many dots of one kind in one path: small in the file, quick to show.
  void fill_dots(std::span<const Point> centres, double radius, const Colour& colour);

  void write(Point at, std::string_view text, const TextStyle& style = {});
  TextSize measure(std::string_view text, const TextStyle& style = {});

  // One pixel per cell, sharp edges, stretched over the area.
  void paint_image(const Rect& area, const PaletteImage& image);

  // What `paint` draws is cut off at the area's edges.
  void clipped(const Rect& area, const std::function<void()>& paint);
  // What `paint` draws is moved by this much.
  void moved(double x, double y, const std::function<void()>& paint);

 private:
  void set_stroke(const Stroke& stroke);

  cairo_t* context_;
};

}  // namespace openwork::draw
