// 16-bit floats as bits: F16 (IEEE half) and BF16 (the upper half of a float). Plain arithmetic without
// branches, so that a loop over them is vectorised on any machine.
#pragma once
#include <bit>
#include <cstdint>

namespace openwork {

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Exact, subnormals, infinities and NaNs included. Normal halves: shift the exponent into place and rescale;
// subnormal ones: put the fraction under the exponent of 0.5 and subtract 0.5.
inline float f16_to_float(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  const uint32_t magnitude = word + word;
  const float normal = std::bit_cast<float>((magnitude >> 4) + (uint32_t{0xE0} << 23)) * 0x1.0p-112f;
  const float subnormal = std::bit_cast<float>((magnitude >> 17) | (uint32_t{126} << 23)) - 0.5f;
  const uint32_t result = std::bit_cast<uint32_t>(magnitude < (uint32_t{1} << 27) ? subnormal : normal);
  return std::bit_cast<float>((word & 0x80000000u) | result);
}

}  // namespace openwork
