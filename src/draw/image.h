// Pictures of at most 256 colours, one byte per pixel, and their PNG files: what a heat map is inside a
// vector figure. An 8-bit palette keeps a head of 64 x 64 cells near 2 kB, a third of the same pixels in full
// colour.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "draw/colour.h"

namespace openwork::draw {

struct PaletteImage {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;       // [height * width], rows from the top
  const Palette* palette = nullptr;  // outlives the image; attention_palette() does
};

// The bytes of a PNG file: colour type 3 (palette), 8 bits, no interlace.
std::string encode_png(const PaletteImage& image);

}  // namespace openwork::draw
