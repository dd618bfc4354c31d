// What of a compact difference (delta.h, docs/formats.md) is read without torch: what its config.json says, and codes
// of 1 to 8 bits in whole bytes.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace openwork {

inline constexpr int kMostDeltaBits = 8;

// How many bits each matrix's change gets, by parameter name; a matrix that is not named stays the base's.
using DeltaPlan = std::map<std::string, int>;

struct DeltaHeader {
  std::string base_hash;
  DeltaPlan bits;  // 1 to kMostDeltaBits each
};

// Of a config.json with `openwork_delta`; fails in one line naming `origin` on any other.
DeltaHeader read_delta_header(const nlohmann::json& config, const std::string& origin);

// Bytes of a row of `columns` codes.
int64_t packed_bytes(int64_t columns, int bits);

// A row of codes, one a byte and each below 2^bits, as packed_bytes() bytes: the first code in the lowest bits, bits
// that are left over 0. And back.
void pack_row(std::span<const uint8_t> codes, int bits, std::span<uint8_t> packed);
void unpack_row(std::span<const uint8_t> packed, int bits, std::span<uint8_t> codes);

}  // namespace openwork
