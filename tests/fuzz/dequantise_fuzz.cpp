// Any bytes as blocks of each quantisation: the first byte chooses it. Whole blocks only, in a buffer of
// their exact size, so that a read or write beyond is seen; read_f32 must give what dequantise_blocks gives.
#include "io/dequantise.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  if (size == 0) return 0;
  constexpr auto kFirst = static_cast<int>(DType::kQ4_0), kLast = static_cast<int>(DType::kQ6_K);
  const auto dtype = static_cast<DType>(kFirst + data[0] % (kLast - kFirst + 1));
  const uint64_t block = dtype_block(dtype), blocks = (size - 1) / dtype_bytes(dtype, block);
  const auto given = as_bytes(data + 1, blocks * dtype_bytes(dtype, block));
  const std::vector<std::byte> bytes(given.begin(), given.end());
  std::vector<float> direct(blocks * block), read(blocks * block);
  dequantise_blocks(dtype, bytes.data(), blocks, direct.data());
  read_f32({"x", dtype, {static_cast<int64_t>(read.size())}, {}, bytes}, read);
  if (!direct.empty() && std::memcmp(direct.data(), read.data(), direct.size() * sizeof(float)) != 0)
    std::abort();
  return 0;
}
