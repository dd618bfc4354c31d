// The canvas's text: Pango lays a string out, Cairo places it by the height of it that was asked for.
#include <pango/pangocairo.h>

#include <memory>
#include <numbers>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "draw/canvas.h"

namespace openwork::draw {
namespace {

struct ReleaseObject {
  void operator()(PangoLayout* layout) const { g_object_unref(layout); }
};
using Layout = std::unique_ptr<PangoLayout, ReleaseObject>;

Layout lay_out(cairo_t* context, std::string_view text, const TextStyle& style) {
  Layout layout(pango_cairo_create_layout(context));
  // Sizes must not depend on the surface: measures are taken without hinting, at 72 points to the inch.
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
  pango_cairo_context_set_font_options(pango_layout_get_context(layout.get()), options);
  cairo_font_options_destroy(options);
  pango_cairo_context_set_resolution(pango_layout_get_context(layout.get()), 72);

  PangoFontDescription* font = pango_font_description_new();
  pango_font_description_set_family(font,
                                    style.mono ? "DejaVu Sans Mono, monospace" : "DejaVu Sans, sans-serif");
  pango_font_description_set_size(font, static_cast<gint>(style.size * PANGO_SCALE));
  if (style.bold) pango_font_description_set_weight(font, PANGO_WEIGHT_BOLD);
  pango_layout_set_font_description(layout.get(), font);
  pango_font_description_free(font);

  constexpr PangoAlignment kAlignments[] = {PANGO_ALIGN_LEFT, PANGO_ALIGN_CENTER, PANGO_ALIGN_RIGHT};
  pango_layout_set_alignment(layout.get(), kAlignments[static_cast<int>(style.align)]);
  if (style.width > 0) {
    pango_layout_set_width(layout.get(), static_cast<int>(style.width * PANGO_SCALE));
    pango_layout_set_wrap(layout.get(), PANGO_WRAP_WORD_CHAR);
  }
  // A name need not be UTF-8; Pango must.
  const std::string shown =
      find_invalid_utf8(text) == std::string_view::npos ? std::string(text) : printable(text, text.size());
  pango_layout_set_text(layout.get(), shown.data(), static_cast<int>(shown.size()));
  return layout;
}

double height_of(Level level, PangoLayout* layout, double height) {
  switch (level) {
    case Level::kTop:
      return 0;
    case Level::kMiddle:
      return height / 2;
    case Level::kBottom:
      return height;
    case Level::kBaseline:
      return static_cast<double>(pango_layout_get_baseline(layout)) / PANGO_SCALE;
  }
  return 0;
}

}  // namespace

void Canvas::write(Point at, std::string_view text, const TextStyle& style) {
  if (text.empty()) return;
  const Layout layout = lay_out(context_, text, style);
  PangoRectangle extents;
  pango_layout_get_extents(layout.get(), nullptr, &extents);
  const double width = style.width > 0 ? style.width : static_cast<double>(extents.width) / PANGO_SCALE;
  const double left = style.align == Align::kStart ? 0 : style.align == Align::kMiddle ? width / 2 : width;
  const double up = height_of(style.level, layout.get(), static_cast<double>(extents.height) / PANGO_SCALE);
  cairo_save(context_);
  cairo_set_source_rgba(context_, style.colour.red, style.colour.green, style.colour.blue,
                        style.colour.alpha);
  cairo_translate(context_, at.x, at.y);
  cairo_rotate(context_, style.turn * std::numbers::pi / 180);
  cairo_move_to(context_, -left, -up);
  pango_cairo_show_layout(context_, layout.get());
  cairo_restore(context_);
}

TextSize Canvas::measure(std::string_view text, const TextStyle& style) {
  const Layout layout = lay_out(context_, text, style);
  PangoRectangle extents;
  pango_layout_get_extents(layout.get(), nullptr, &extents);
  return {static_cast<double>(extents.width) / PANGO_SCALE,
          static_cast<double>(extents.height) / PANGO_SCALE};
}

}  // namespace openwork::draw
