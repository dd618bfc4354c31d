// The cells of a causal pattern (base/causal_cells.h) as a picture: each cell a pixel in the colour of its
// value.
#pragma once
#include "base/causal_cells.h"
#include "draw/colour.h"
#include "draw/image.h"

namespace openwork::draw {

PaletteImage shade_cells(const Cells& cells, const ColourScale& scale);

}  // namespace openwork::draw
