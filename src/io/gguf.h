// GGUF versions 2 and 3, little-endian: magic "GGUF", version, counts, key-value pairs, tensor infos, then
// data aligned to general.alignment (32 unless the file says otherwise). docs/formats.md has the layout.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "io/tensor_listing.h"

namespace openwork {

// Lists the tensors of a whole file's bytes. Dimensions come innermost first in the file and outermost first
// here. Metadata holds every key with its value, arrays as JSON arrays. Bad input: other versions, big-endian
// files, sizes and counts beyond the file, names that stand twice, strings that are not UTF-8, overlapping
// tensors, and any tensor of a quantisation that DType does not have (the error names it).
TensorListing parse_gguf(std::span<const std::byte> file, std::string_view origin);

}  // namespace openwork
