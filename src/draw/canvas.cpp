#include "draw/canvas.h"

#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>

namespace openwork::draw {
namespace {

void set_colour(cairo_t* context, const Colour& colour) {
  cairo_set_source_rgba(context, colour.red, colour.green, colour.blue, colour.alpha);
}

cairo_surface_t* make_surface(const PaletteImage& image) {
  cairo_surface_t* surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, image.width, image.height);
  const int stride = cairo_image_surface_get_stride(surface);
  unsigned char* data = cairo_image_surface_get_data(surface);
  for (int y = 0; y < image.height && data != nullptr; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const PaletteEntry& entry =
          (*image.palette)[image.pixels[static_cast<size_t>(y) * static_cast<size_t>(image.width) +
                                        static_cast<size_t>(x)]];
      const uint32_t pixel = uint32_t{entry.red} << 16 | uint32_t{entry.green} << 8 | entry.blue;
      std::memcpy(data + y * stride + x * 4, &pixel, sizeof pixel);
    }
  }
  cairo_surface_mark_dirty(surface);
  return surface;
}

// Few cells as blocks of pixels: some viewers smooth every picture they enlarge, and a block only loses its
// rim.
PaletteImage enlarge(const PaletteImage& image) {
  const int factor = std::clamp(128 / std::max(image.width, image.height), 1, 16);
  PaletteImage large{image.width * factor, image.height * factor, {}, image.palette};
  large.pixels.reserve(image.pixels.size() * static_cast<size_t>(factor * factor));
  for (int y = 0; y < large.height; ++y) {
    for (int x = 0; x < large.width; ++x)
      large.pixels.push_back(image.pixels[static_cast<size_t>(y / factor * image.width + x / factor)]);
  }
  return large;
}

// SVG then carries the small palette PNG in place of full-colour pixels.
void attach_png(cairo_surface_t* surface, const PaletteImage& image) {
  const std::string png = encode_png(enlarge(image));
  auto* copy = static_cast<unsigned char*>(std::malloc(png.size()));
  if (copy == nullptr) return;  // the pixels still serve
  std::memcpy(copy, png.data(), png.size());
  cairo_surface_set_mime_data(surface, CAIRO_MIME_TYPE_PNG, copy, png.size(), std::free, copy);
}

// Cells keep their edges, except on a raster with fewer pixels than cells: there each pixel is a mean of its
// cells.
cairo_filter_t choose_filter(cairo_t* context) {
  cairo_surface_t* target = cairo_get_target(context);
  if (cairo_surface_get_type(target) != CAIRO_SURFACE_TYPE_IMAGE) return CAIRO_FILTER_NEAREST;
  double x = 1, y = 1, scale_x = 1, scale_y = 1;
  cairo_user_to_device_distance(context, &x, &y);
  cairo_surface_get_device_scale(target, &scale_x, &scale_y);
  return std::abs(x * scale_x) < 1 || std::abs(y * scale_y) < 1 ? CAIRO_FILTER_GOOD : CAIRO_FILTER_NEAREST;
}

}  // namespace

void Canvas::set_stroke(const Stroke& stroke) {
  set_colour(context_, stroke.colour);
  cairo_set_line_width(context_, stroke.width);
  cairo_set_dash(context_, stroke.dashes.data(), static_cast<int>(stroke.dashes.size()), 0);
}

void Canvas::fill(const Rect& area, const Colour& colour) {
  set_colour(context_, colour);
  cairo_rectangle(context_, area.x, area.y, area.width, area.height);
  cairo_fill(context_);
}

void Canvas::frame(const Rect& area, const Stroke& stroke) {
  set_stroke(stroke);
  cairo_rectangle(context_, area.x, area.y, area.width, area.height);
  cairo_stroke(context_);
}

void Canvas::line(Point from, Point to, const Stroke& stroke) {
  set_stroke(stroke);
  cairo_move_to(context_, from.x, from.y);
  cairo_line_to(context_, to.x, to.y);
  cairo_stroke(context_);
}

void Canvas::polyline(std::span<const Point> points, const Stroke& stroke) {
  if (points.empty()) return;
  set_stroke(stroke);
  cairo_set_line_join(context_, CAIRO_LINE_JOIN_ROUND);
  cairo_move_to(context_, points[0].x, points[0].y);
  for (const Point& point : points.subspan(1)) cairo_line_to(context_, point.x, point.y);
  cairo_stroke(context_);
}

void Canvas::curve(Point from, Point bend1, Point bend2, Point to, const Stroke& stroke) {
  set_stroke(stroke);
  cairo_move_to(context_, from.x, from.y);
  cairo_curve_to(context_, bend1.x, bend1.y, bend2.x, bend2.y, to.x, to.y);
  cairo_stroke(context_);
}

void Canvas::fill_polygon(std::span<const Point> points, const Colour& colour) {
  if (points.empty()) return;
  set_colour(context_, colour);
  cairo_move_to(context_, points[0].x, points[0].y);
  for (const Point& point : points.subspan(1)) cairo_line_to(context_, point.x, point.y);
  cairo_close_path(context_);
  cairo_fill(context_);
}

void Canvas::fill_circle(Point centre, double radius, const Colour& colour) {
  fill_dots(std::span(&centre, 1), radius, colour);
}

void Canvas::fill_dots(std::span<const Point> centres, double radius, const Colour& colour) {
  // A line of no length with round ends is a dot, and a tenth of a circle's bytes in a file.
  cairo_save(context_);
  set_stroke({colour, 2 * radius});
  cairo_set_line_cap(context_, CAIRO_LINE_CAP_ROUND);
  for (const Point& centre : centres) {
    cairo_move_to(context_, centre.x, centre.y);
    cairo_line_to(context_, centre.x, centre.y);
  }
  cairo_stroke(context_);
  cairo_restore(context_);
}

void Canvas::fill_rounded(const Rect& area, double radius, const Colour& colour) {
  const double quarter = std::numbers::pi / 2;
  set_colour(context_, colour);
  cairo_new_sub_path(context_);
  cairo_arc(context_, area.right() - radius, area.y + radius, radius, -quarter, 0);
  cairo_arc(context_, area.right() - radius, area.bottom() - radius, radius, 0, quarter);
  cairo_arc(context_, area.x + radius, area.bottom() - radius, radius, quarter, 2 * quarter);
  cairo_arc(context_, area.x + radius, area.y + radius, radius, 2 * quarter, 3 * quarter);
  cairo_close_path(context_);
  cairo_fill(context_);
}

void Canvas::paint_image(const Rect& area, const PaletteImage& image) {
  if (image.width <= 0 || image.height <= 0) return;
  cairo_surface_t* surface = make_surface(image);
  if (cairo_surface_get_type(cairo_get_target(context_)) == CAIRO_SURFACE_TYPE_SVG)
    attach_png(surface, image);
  cairo_save(context_);
  cairo_translate(context_, area.x, area.y);
  cairo_scale(context_, area.width / image.width, area.height / image.height);
  cairo_set_source_surface(context_, surface, 0, 0);
  const cairo_filter_t filter = choose_filter(context_);
  cairo_pattern_set_filter(cairo_get_source(context_), filter);
  if (filter == CAIRO_FILTER_NEAREST) {
    cairo_paint(
        context_);  // not a filled rectangle: SVG would wrap the image into a pattern, which viewers smooth
  } else {
    cairo_pattern_set_extend(cairo_get_source(context_), CAIRO_EXTEND_PAD);  // no fading at the rim
    cairo_rectangle(context_, 0, 0, image.width, image.height);
    cairo_fill(context_);
  }
  cairo_restore(context_);
  cairo_surface_destroy(surface);
}

void Canvas::clipped(const Rect& area, const std::function<void()>& paint) {
  cairo_save(context_);
  cairo_rectangle(context_, area.x, area.y, area.width, area.height);
  cairo_clip(context_);
  paint();
  cairo_restore(context_);
}

void Canvas::moved(double x, double y, const std::function<void()>& paint) {
  cairo_save(context_);
  cairo_translate(context_, x, y);
  paint();
  cairo_restore(context_);
}

}  // namespace openwork::draw
