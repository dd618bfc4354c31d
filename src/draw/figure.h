// A figure: its size and how it is painted. The same figure is written as SVG, PDF or PNG.
//   Figure figure = draw_line_chart(chart);
//   write_figure(figure, "curves.svg");                  // the format is the ending: .svg, .pdf, .png
//   std::string svg = render_figure(figure, Format::kSvg);   // the file's bytes, to put into a page
// Files are written beside, then renamed (io/atomic_file.h); a file that cannot be written is a one-line
// error.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "draw/canvas.h"

namespace openwork::draw {

struct Figure {
  double width = 0, height = 0;  // points
  std::function<void(Canvas&)> paint;
};

enum class Format { kSvg, kPdf, kPng };

inline constexpr double kDefaultDpi = 150;

// By the file name's ending; bad input for any other than .svg, .pdf and .png. `option` names it in the
// error.
Format format_of(const std::filesystem::path& path, std::string_view option = "--out");

// `dpi` is the pixels per inch of a PNG; SVG and PDF have none. Bad input where the PNG would be larger than
// Cairo's limit (32,767 pixels a side).
std::string render_figure(const Figure& figure, Format format, double dpi = kDefaultDpi);
void write_figure(const Figure& figure, const std::filesystem::path& path, double dpi = kDefaultDpi);

// From now on every figure that is to be written is first offered to `take`, with the path it would go to; where
// it returns true no file is written. For a host that shows figures; an empty one ends it.
using FigureTaker = std::function<bool(const Figure&, const std::filesystem::path&)>;
void offer_figures(FigureTaker take);

// What stands around every chart: a title above, and below it in small type what the reader must know
// (protocol, counts, what a mark means). Empty parts take no room.
struct Caption {
  std::string title, subtitle, note;
};

// Paints the caption along the page's edges and returns what is left between, with margins.
Rect paint_caption(Canvas& canvas, const Rect& page, const Caption& caption);

// How many points of height the caption takes of a page this wide, margins included.
double measure_caption(const Caption& caption, double width);

// Measures text without a page: what a layout needs before the figure's size is known.
TextSize measure_text(std::string_view text, const TextStyle& style = {});

// Several figures in rows of `columns`, as one; a caption around them all.
Figure arrange_figures(std::vector<Figure> figures, int columns, const Caption& caption = {});

}  // namespace openwork::draw
