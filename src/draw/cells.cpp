#include "draw/cells.h"

namespace openwork::draw {

PaletteImage shade_cells(const Cells& cells, const ColourScale& scale) {
  PaletteImage image{static_cast<int>(cells.side), static_cast<int>(cells.side), {}, &attention_palette()};
  image.pixels.reserve(cells.values.size());
  for (const float value : cells.values) image.pixels.push_back(scale.index_of(value));
  return image;
}

}  // namespace openwork::draw
