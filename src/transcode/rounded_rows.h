// A matrix of few bits: a whole number for each of its own, and a scale for each row. Rows are the last dimension.
#pragma once
#include <ATen/core/Tensor.h>

namespace openwork {

using at::Tensor;

struct RoundedRows {
  Tensor codes;   // as the matrix, int8
  Tensor scales;  // as the matrix without its last dimension, float32
};

// Of 2 to 8 bits. With 8 a row's largest number is its largest code; with fewer a row may be better off with finer steps
// and its largest numbers cut, so the best of some scales is taken, row by row. A row of zeros keeps scale 0.
RoundedRows round_rows(const Tensor& matrix, int bits);
Tensor expand_rows(const RoundedRows& rounded);  // float32

// Codes in whole bytes (delta_format.h), 2^(bits - 1) added to each so that none is below 0; and back.
Tensor pack_rows(const Tensor& codes, int bits);
Tensor unpack_rows(const Tensor& packed, int64_t columns, int bits);

}  // namespace openwork
