#include "draw/colour.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace openwork::draw {
namespace {

// ColorBrewer's Blues, from pure white and on to a darker end.
constexpr PaletteEntry kStops[] = {{255, 255, 255}, {222, 235, 247}, {190, 215, 237}, {150, 196, 223},
                                   {107, 174, 214}, {66, 146, 198},  {33, 113, 181},  {8, 81, 156},
                                   {6, 46, 102},    {2, 18, 50}};
constexpr int kStopCount = sizeof(kStops) / sizeof(kStops[0]);

uint8_t blend(uint8_t from, uint8_t to, double share) {
  return static_cast<uint8_t>(std::lround(from + (to - from) * share));
}

Palette make_attention_palette() {
  Palette palette;
  for (int n = 0; n < 256; ++n) {
    const double place = n / 255.0 * (kStopCount - 1);
    const int stop = std::min(static_cast<int>(place), kStopCount - 2);
    const PaletteEntry &from = kStops[stop], &to = kStops[stop + 1];
    const double share = place - stop;
    palette[static_cast<size_t>(n)] = {blend(from.red, to.red, share), blend(from.green, to.green, share),
                                       blend(from.blue, to.blue, share)};
  }
  return palette;
}

}  // namespace

Colour parse_colour(std::string_view hex) {
  unsigned value = 0;
  if (hex.size() != 7 || hex[0] != '#') return {};
  std::from_chars(hex.data() + 1, hex.data() + 7, value, 16);
  return {(value >> 16 & 255) / 255.0, (value >> 8 & 255) / 255.0, (value & 255) / 255.0, 1};
}

Colour category_colour(int index) {
  constexpr std::string_view kSet[kCategories] = {"#332288", "#117733", "#cc6677", "#88ccee", "#ddcc77",
                                                  "#aa4499", "#44aa99", "#882255", "#999933", "#bbbbbb"};
  return parse_colour(kSet[static_cast<size_t>((index % kCategories + kCategories) % kCategories)]);
}

Colour model_colour(size_t model, size_t models) {
  if (model == 0) return kDense;
  return model + 1 == models ? kSparse : category_colour(static_cast<int>(model) + 1);
}

const Palette& attention_palette() {
  static const Palette palette = make_attention_palette();
  return palette;
}

Colour palette_colour(const Palette& palette, int index) {
  const PaletteEntry& entry = palette[static_cast<size_t>(std::clamp(index, 0, 255))];
  return {entry.red / 255.0, entry.green / 255.0, entry.blue / 255.0, 1};
}

uint8_t ColourScale::index_of(double value) const {
  if (!(high > 0) || !(value > 0)) return 0;  // also where the value is not a number
  const double share = std::min(value / high, 1.0);
  return static_cast<uint8_t>(std::lround(255 * (shade == Shade::kSquareRoot ? std::sqrt(share) : share)));
}

double ColourScale::value_at(int index) const {
  const double share = std::clamp(index, 0, 255) / 255.0;
  return high * (shade == Shade::kSquareRoot ? share * share : share);
}

}  // namespace openwork::draw
