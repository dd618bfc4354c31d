// Colours, the scale that shades attention, and the colour-blind safe set that tells things apart.
//   attention_palette()[255]      dark blue; index 0 is white, and every one of the 256 colours is its own, so
//                                 that a value can be read back from a picture to 1/255 of its scale
//   ColourScale scale{0.8};       values 0 .. 0.8 over those 256 colours
//   category_colour(2)            the third of a fixed order (Tol's muted set, grey last)
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace openwork::draw {

struct Colour {
  double red = 0, green = 0, blue = 0, alpha = 1;  // each 0 .. 1

  Colour with_alpha(double value) const { return {red, green, blue, value}; }
};

// "#0072b2" as a colour. Anything else is a mistake of the caller and gives black.
Colour parse_colour(std::string_view hex);

inline constexpr Colour kWhite{1, 1, 1};
inline constexpr Colour kInk{0.13, 0.14, 0.16};       // text, axes that matter
inline constexpr Colour kFaint{0.45, 0.47, 0.50};     // captions, tick labels
inline constexpr Colour kHairline{0.78, 0.79, 0.81};  // frames, grid lines
inline constexpr Colour kDense{0.835, 0.369, 0.0};    // the dense model, in every figure
inline constexpr Colour kSparse{0.0, 0.447, 0.698};   // its sparse twin
inline constexpr Colour kPositive{0.03, 0.32, 0.61};  // an effect that raises, in diagrams
inline constexpr Colour kNegative{0.80, 0.40, 0.05};  // and one that lowers
inline constexpr Colour kMark{0.84, 0.10, 0.13};      // frames around cells to look at

inline constexpr int kCategories = 10;
Colour category_colour(int index);  // any index; repeats after kCategories

// Of several models the first is the base and the last the sparse one; those between have colours of their own.
Colour model_colour(size_t model, size_t models);

struct PaletteEntry {
  uint8_t red = 0, green = 0, blue = 0;
  auto operator<=>(const PaletteEntry&) const = default;
};
using Palette = std::array<PaletteEntry, 256>;

// White to dark blue; lightness falls at every step.
const Palette& attention_palette();
Colour palette_colour(const Palette& palette, int index);

// How much of the range a value has come through. Square root shows weak attention that a linear scale hides.
enum class Shade { kLinear, kSquareRoot };

// Values 0 .. high to palette indices 0 .. 255. Rounded to the nearest, so value_at(index_of(v)) is within
// high/255 of v for both shades. What lies outside takes the nearest end.
struct ColourScale {
  double high = 1;
  Shade shade = Shade::kSquareRoot;

  uint8_t index_of(double value) const;
  double value_at(int index) const;
};

}  // namespace openwork::draw
