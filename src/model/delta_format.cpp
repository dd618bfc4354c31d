#include "model/delta_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace openwork {

DeltaHeader read_delta_header(const nlohmann::json& config, const std::string& origin) {
  const auto refuse = [&](const std::string& what) { fail_input(what, origin, "make the difference again"); };
  const bool has_own = config.is_object() && config.contains("openwork_delta");
  const nlohmann::json& own = has_own ? config["openwork_delta"] : nlohmann::json();
  if (!own.is_object()) refuse("config.json has no openwork_delta");
  if (own.value("version", nlohmann::json()) != 1) refuse("openwork_delta is not of version 1");
  DeltaHeader header;
  if (!own.contains("base_sha256") || !own["base_sha256"].is_string())
    refuse("openwork_delta names no base_sha256");
  header.base_hash = own["base_sha256"];
  if (!own.contains("bits") || !own["bits"].is_object()) refuse("openwork_delta names no bits");
  for (const auto& [name, bits] : own["bits"].items()) {
    if (!bits.is_number_integer() || bits < 1 || bits > kMostDeltaBits)
      refuse(fmt::format("'{}' has {} bits", printable(name), printable(bits.dump(), 60)));
    header.bits[name] = bits;
  }
  return header;
}

int64_t packed_bytes(int64_t columns, int bits) {
  return (columns * bits + 7) / 8;
}

void pack_row(std::span<const uint8_t> codes, int bits, std::span<uint8_t> packed) {
  std::fill(packed.begin(), packed.end(), uint8_t{0});
  size_t bit = 0;
  for (const uint8_t code : codes) {
    const unsigned word = static_cast<unsigned>(code) << (bit % 8);
    packed[bit / 8] |= static_cast<uint8_t>(word);
    if (word > 0xFF) packed[bit / 8 + 1] |= static_cast<uint8_t>(word >> 8);
    bit += static_cast<size_t>(bits);
  }
}

void unpack_row(std::span<const uint8_t> packed, int bits, std::span<uint8_t> codes) {
  const auto width = static_cast<size_t>(bits);
  size_t bit = 0;
  for (uint8_t& code : codes) {
    unsigned word = packed[bit / 8];
    if (bit % 8 + width > 8) word |= static_cast<unsigned>(packed[bit / 8 + 1]) << 8;
    code = static_cast<uint8_t>((word >> (bit % 8)) & ((1u << width) - 1));
    bit += width;
  }
}

}  // namespace openwork
