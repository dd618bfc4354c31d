// A tensor as bytes that a page reads without parsing them, all little-endian:
//   "OWT1" | u32 N | N bytes of JSON, padded with spaces to a multiple of 8 with what stands before | the data
// The JSON has "dtype" (u8, f32) and "shape"; the data is in C order, and nothing follows it.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace openwork::serve {

std::string pack_tensor(const nlohmann::json& header, std::string_view data);

struct UnpackedTensor {
  nlohmann::json header;
  std::string_view data;  // into the bytes given
};
UnpackedTensor unpack_tensor(std::string_view bytes);  // fails where they are none

}  // namespace openwork::serve
