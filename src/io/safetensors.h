// safetensors: an 8-byte little-endian header length, a JSON header {name: {"dtype", "shape",
// "data_offsets": [begin, end]}, "__metadata__": {string: string}}, then the tensors' bytes, offsets counted
// from the end of the header. docs/formats.md has the rules in full.
//   write_safetensors("out.safetensors", {{"bias", DType::kF32, {3}, bytes_of(values)}});
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensor_listing.h"

namespace openwork {

// The reference implementation's own limit.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

// Lists the tensors of a whole file's bytes. Bad input: a header that is longer than the file or the limit,
// is not JSON, names a tensor twice or an unknown dtype; offsets out of range, overlapping, leaving holes or
// bytes at the end; a size that is not shape times dtype.
TensorListing parse_safetensors(std::span<const std::byte> file, std::string_view origin);

// Takes a tensor's bytes in any number of pieces.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// A tensor to write: `bytes`, row-major, or, where there are too many to hold at once, `produce`, which is
// called once when their turn comes and must put exactly the tensor's bytes into the sink.
struct OutputTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes = {};
  std::function<void(const ByteSink& sink)> produce = nullptr;
};

// Writes the file whole or not at all. Tensors lie by dtype, widest first, then by name, as the reference
// implementation has it, so that each is aligned to its dtype. Quantised dtypes have no place in the format
// and are refused, as are two tensors of one name.
void write_safetensors(const std::filesystem::path& path, std::vector<OutputTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// The bytes of plain numbers, for OutputTensor.
template <typename Numbers>
std::span<const std::byte> bytes_of(const Numbers& numbers) {
  return std::as_bytes(std::span(numbers));
}

}  // namespace openwork
