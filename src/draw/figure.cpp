#include "draw/figure.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "io/atomic_file.h"

namespace openwork::draw {
namespace {

constexpr int kMaxPixels = 32767;
FigureTaker figure_taker;  // offer_figures

struct DestroySurface {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
};
using Surface = std::unique_ptr<cairo_surface_t, DestroySurface>;

struct DestroyContext {
  void operator()(cairo_t* context) const { cairo_destroy(context); }
};
using Context = std::unique_ptr<cairo_t, DestroyContext>;

cairo_status_t append_bytes(void* out, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(out)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS)
    fail(fmt::format("the figure could not be painted ({})", cairo_status_to_string(status)), "cairo",
         "use a smaller figure");
}

Surface make_surface(const Figure& figure, Format format, double dpi, std::string& bytes) {
  switch (format) {
    case Format::kSvg:
      return Surface(cairo_svg_surface_create_for_stream(append_bytes, &bytes, figure.width, figure.height));
    case Format::kPdf:
      return Surface(cairo_pdf_surface_create_for_stream(append_bytes, &bytes, figure.width, figure.height));
    case Format::kPng:
      break;
  }
  const double width = std::ceil(figure.width * dpi / 72), height = std::ceil(figure.height * dpi / 72);
  if (width > kMaxPixels || height > kMaxPixels) {
    fail_input(fmt::format("a picture of {:.0f} x {:.0f} pixels", width, height), "--dpi",
               fmt::format("at most {} a side; lower --dpi, or write .svg or .pdf", kMaxPixels));
  }
  Surface surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height)));
  cairo_surface_set_device_scale(surface.get(), dpi / 72, dpi / 72);
  return surface;
}

// Browsers smooth enlarged pictures unless told otherwise; cells must keep their edges.
std::string sharpen_images(std::string svg) {
  constexpr std::string_view kImage = "<image ", kSharp = "style=\"image-rendering:pixelated\" ";
  std::string out;
  out.reserve(svg.size() + svg.size() / 64);
  size_t from = 0;
  for (size_t at = svg.find(kImage); at != std::string::npos; at = svg.find(kImage, from)) {
    out.append(svg, from, at + kImage.size() - from).append(kSharp);
    from = at + kImage.size();
  }
  return out.append(svg, from);
}

constexpr double kMargin = 10, kTitleSize = 11, kSubtitleSize = 8.5, kNoteSize = 6.5;

TextStyle title_style(double width) {
  return {.size = kTitleSize, .level = Level::kTop, .bold = true, .width = width};
}
TextStyle subtitle_style(double width) {
  return {.size = kSubtitleSize, .colour = kFaint, .level = Level::kTop, .width = width};
}
TextStyle note_style(double width) {
  return {.size = kNoteSize, .colour = kFaint, .level = Level::kTop, .width = width};
}

struct CaptionHeights {
  double title = 0, subtitle = 0, note = 0;
};

CaptionHeights measure_parts(Canvas& canvas, const Caption& caption, double width) {
  const auto height = [&](const std::string& text, const TextStyle& style, double gap) {
    return text.empty() ? 0 : canvas.measure(text, style).height + gap;
  };
  return {height(caption.title, title_style(width), 3), height(caption.subtitle, subtitle_style(width), 4),
          height(caption.note, note_style(width), 6)};
}

// A context to measure on, where there is no page yet.
Context make_measuring_context() {
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1));
  return Context(cairo_create(surface.get()));
}

}  // namespace

Format format_of(const std::filesystem::path& path, std::string_view option) {
  const std::string ending = path.extension().string();
  if (ending == ".svg") return Format::kSvg;
  if (ending == ".pdf") return Format::kPdf;
  if (ending == ".png") return Format::kPng;
  fail_input(fmt::format("'{}' is no figure's file name", printable(path.string(), 120)), option,
             "end it in .svg, .pdf or .png");
}

std::string render_figure(const Figure& figure, Format format, double dpi) {
  std::string bytes;
  const Surface surface = make_surface(figure, format, dpi, bytes);
  check(cairo_surface_status(surface.get()));
  const Context context(cairo_create(surface.get()));
  Canvas canvas(context.get());
  if (format == Format::kPng) canvas.fill({0, 0, figure.width + 1, figure.height + 1}, kWhite);
  figure.paint(canvas);
  check(cairo_status(context.get()));
  if (format == Format::kPng) check(cairo_surface_write_to_png_stream(surface.get(), append_bytes, &bytes));
  cairo_surface_finish(surface.get());
  check(cairo_surface_status(surface.get()));
  return format == Format::kSvg ? sharpen_images(std::move(bytes)) : bytes;
}

void offer_figures(FigureTaker take) {
  figure_taker = std::move(take);
}

void write_figure(const Figure& figure, const std::filesystem::path& path, double dpi) {
  if (figure_taker && figure_taker(figure, path)) return;
  const Format format = format_of(path);
  AtomicFile file(path);  // before the work: a place that cannot be written is found at once
  file.write(render_figure(figure, format, dpi));
  file.commit();
}

Rect paint_caption(Canvas& canvas, const Rect& page, const Caption& caption) {
  Rect area = page.inset(kMargin, kMargin, kMargin, kMargin);
  const CaptionHeights heights = measure_parts(canvas, caption, area.width);
  canvas.write({area.x, area.y}, caption.title, title_style(area.width));
  canvas.write({area.x, area.y + heights.title}, caption.subtitle, subtitle_style(area.width));
  if (heights.note > 0)
    canvas.write({area.x, area.bottom() - heights.note + 6}, caption.note, note_style(area.width));
  return area.inset(0, heights.title + heights.subtitle, 0, heights.note);
}

double measure_caption(const Caption& caption, double width) {
  const Context context = make_measuring_context();
  Canvas canvas(context.get());
  const CaptionHeights heights = measure_parts(canvas, caption, width - 2 * kMargin);
  return 2 * kMargin + heights.title + heights.subtitle + heights.note;
}

TextSize measure_text(std::string_view text, const TextStyle& style) {
  const Context context = make_measuring_context();
  return Canvas(context.get()).measure(text, style);
}

Figure arrange_figures(std::vector<Figure> figures, int columns, const Caption& caption) {
  const size_t wide = static_cast<size_t>(std::max(1, columns));
  std::vector<double> widths(std::min(wide, figures.size()), 0),
      heights((figures.size() + wide - 1) / wide, 0);
  for (size_t n = 0; n < figures.size(); ++n) {
    widths[n % wide] = std::max(widths[n % wide], figures[n].width);
    heights[n / wide] = std::max(heights[n / wide], figures[n].height);
  }
  double width = 2 * kMargin, height = 0;
  for (const double w : widths) width += w;
  for (const double h : heights) height += h;
  height += measure_caption(caption, width);
  const auto paint = [figures = std::move(figures), widths, heights, caption, width, height,
                      wide](Canvas& canvas) {
    const Rect area = paint_caption(canvas, {0, 0, width, height}, caption);
    double y = area.y;
    for (size_t row = 0; row < heights.size(); y += heights[row++]) {
      double x = area.x;
      for (size_t column = 0; column < widths.size() && row * wide + column < figures.size();
           x += widths[column++]) {
        canvas.moved(x, y, [&] { figures[row * wide + column].paint(canvas); });
      }
    }
  };
  return {width, height, paint};
}

}  // namespace openwork::draw
