// Bytes as text that stands in JSON and in data: addresses (RFC 4648, with padding).
#pragma once
#include <string>
#include <string_view>

namespace openwork {

std::string encode_base64(std::string_view bytes);

}  // namespace openwork
