// Any bytes as a compact difference: up to the first zero byte its config.json, read or refused in one line; the rest as
// codes of every width, which come back from what is packed as they were.
#include "fuzz/fuzz_input.h"
#include "io/json.h"
#include "model/delta_format.h"

namespace openwork {
namespace {

void try_codes(std::span<const uint8_t> packed, int bits) {
  const size_t columns = packed.size() * 8 / static_cast<size_t>(bits);
  std::vector<uint8_t> codes(columns), again(columns);
  unpack_row(packed, bits, codes);
  for (const uint8_t code : codes)
    if (code >= 1 << bits) std::abort();
  std::vector<uint8_t> repacked(static_cast<size_t>(packed_bytes(static_cast<int64_t>(columns), bits)));
  pack_row(codes, bits, repacked);
  unpack_row(repacked, bits, again);
  if (codes != again) std::abort();
}

}  // namespace
}  // namespace openwork

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  const std::string_view text = as_text(data, size);
  const size_t end = std::min(text.find('\0'), size), rest = std::min(end + 1, size);
  for (int bits = 1; bits <= kMostDeltaBits; ++bits) try_codes({data + rest, size - rest}, bits);
  return expect_error_at_worst([&] {
    const DeltaHeader header = read_delta_header(parse_json(text.substr(0, end), "input"), "input");
    for (const auto& [name, bits] : header.bits)
      if (bits < 1 || bits > kMostDeltaBits) std::abort();
  });
}
