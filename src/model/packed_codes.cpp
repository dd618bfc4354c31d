#include "model/packed_codes.h"

#include <ATen/ATen.h>

#include "model/delta_format.h"

namespace openwork {

Tensor pack_codes(const Tensor& codes, int bits) {
  const int64_t rows = codes.size(0), columns = codes.size(1), bytes = packed_bytes(columns, bits);
  const Tensor plain = codes.cpu().contiguous();
  Tensor packed = at::empty({rows, bytes}, at::kByte);
  for (int64_t row = 0; row < rows; ++row)
    pack_row({plain.const_data_ptr<uint8_t>() + row * columns, static_cast<size_t>(columns)}, bits,
             {packed.mutable_data_ptr<uint8_t>() + row * bytes, static_cast<size_t>(bytes)});
  return packed;
}

Tensor unpack_codes(const Tensor& packed, int64_t columns, int bits) {
  const int64_t rows = packed.size(0), bytes = packed.size(1);
  Tensor codes = at::empty({rows, columns}, at::kByte);
  for (int64_t row = 0; row < rows; ++row)
    unpack_row({packed.const_data_ptr<uint8_t>() + row * bytes, static_cast<size_t>(bytes)}, bits,
               {codes.mutable_data_ptr<uint8_t>() + row * columns, static_cast<size_t>(columns)});
  return codes;
}

}  // namespace openwork
