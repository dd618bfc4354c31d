// A head's pattern as a small picture: one pixel per (query, key), in the 256 colours of the attention
// palette, each of which is one value. The shade is the square root, so that weak attention shows; a value
// read back is within 1/255 of what it was.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace openwork {

std::string make_sprite(std::span<const float> pattern, int64_t tokens);  // PNG; pattern [tokens * tokens]

// The palette as numbers 0xRRGGBB, for the script that reads values back.
nlohmann::json sprite_palette();

// The palette as a CSS gradient, for the key.
std::string sprite_gradient();

}  // namespace openwork
