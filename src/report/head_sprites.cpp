#include "report/head_sprites.h"

#include <fmt/format.h>

#include "draw/colour.h"
#include "draw/image.h"

namespace openwork {
namespace {

constexpr draw::ColourScale kScale{1.0, draw::Shade::kSquareRoot};

}  // namespace

std::string make_sprite(std::span<const float> pattern, int64_t tokens) {
  draw::PaletteImage image;
  image.width = image.height = static_cast<int>(tokens);
  image.palette = &draw::attention_palette();
  image.pixels.assign(static_cast<size_t>(tokens * tokens), 0);
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const auto cell = static_cast<size_t>(i * tokens + j);
      image.pixels[cell] = kScale.index_of(pattern[cell]);
    }
  }
  return draw::encode_png(image);
}

nlohmann::json sprite_palette() {
  nlohmann::json colours = nlohmann::json::array();
  for (const draw::PaletteEntry& entry : draw::attention_palette())
    colours.push_back(entry.red << 16 | entry.green << 8 | entry.blue);
  return colours;
}

std::string sprite_gradient() {
  std::string stops;
  for (int step = 0; step <= 8; ++step) {
    const draw::PaletteEntry& entry =
        draw::attention_palette()[static_cast<size_t>(kScale.index_of(step / 8.0))];
    stops += fmt::format("{}rgb({},{},{})", step ? "," : "", entry.red, entry.green, entry.blue);
  }
  return fmt::format("linear-gradient(to right,{})", stops);
}

}  // namespace openwork
