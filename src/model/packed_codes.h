// Rows of codes of 1 to 8 bits, one a byte, as rows of whole bytes (delta_format.h), and back: tensors of bytes on the
// CPU.
#pragma once
#include <ATen/core/Tensor.h>

namespace openwork {

using at::Tensor;

Tensor pack_codes(const Tensor& codes, int bits);  // [rows, columns] -> [rows, packed_bytes(columns, bits)]
Tensor unpack_codes(const Tensor& packed, int64_t columns, int bits);

}  // namespace openwork
