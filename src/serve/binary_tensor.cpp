#include "serve/binary_tensor.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "io/json.h"
#include "serve/reply.h"

namespace openwork::serve {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they lie in memory");
constexpr std::string_view kMagic = "OWT1";
constexpr size_t kStart = 8,
                 kAlignment = 8;  // the header's first byte; what the data begins at a multiple of

[[noreturn]] void refuse(const char* what) {
  fail_input(what, "tensor", "give what /api/patterns answers");
}

}  // namespace

std::string pack_tensor(const nlohmann::json& header, std::string_view data) {
  std::string text = to_text(header);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const auto size = static_cast<uint32_t>(text.size());
  std::string bytes;
  bytes.reserve(kStart + text.size() + data.size());
  bytes += kMagic;
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += text;
  bytes += data;
  return bytes;
}

UnpackedTensor unpack_tensor(std::string_view bytes) {
  if (bytes.size() < kStart || !bytes.starts_with(kMagic)) refuse("not a tensor");
  uint32_t size = 0;
  std::memcpy(&size, bytes.data() + kMagic.size(), sizeof size);
  if (size > bytes.size() - kStart) refuse("cut short");
  return {parse_json(bytes.substr(kStart, size), "tensor"), bytes.substr(kStart + size)};
}

}  // namespace openwork::serve
