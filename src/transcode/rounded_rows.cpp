#include "transcode/rounded_rows.h"

#include <ATen/ATen.h>

#include <cmath>

#include "model/packed_codes.h"

namespace openwork {
namespace {

int64_t largest_code(int bits) {
  return (int64_t{1} << (bits - 1)) - 1;
}

RoundedRows round_to(const Tensor& matrix, const Tensor& scales, int bits) {
  const int64_t most = largest_code(bits);
  const Tensor codes = (matrix / scales.clamp_min(1e-30).unsqueeze(-1)).round().clamp(-most, most);
  return {codes.to(at::kChar), scales};
}

}  // namespace

RoundedRows round_rows(const Tensor& matrix, int bits) {
  const Tensor widest = matrix.abs().amax(-1) / static_cast<double>(largest_code(bits));
  if (bits == 8) return round_to(matrix, widest, bits);
  Tensor best = widest, least = at::full_like(widest, INFINITY);
  for (int percent = 100; percent >= 40; percent -= 5) {
    const Tensor scales = widest * (percent / 100.0);
    const Tensor error = (expand_rows(round_to(matrix, scales, bits)) - matrix).square().sum(-1);
    best = at::where(error < least, scales, best);
    least = at::minimum(error, least);
  }
  return round_to(matrix, best, bits);
}

Tensor expand_rows(const RoundedRows& rounded) {
  return rounded.codes.to(at::kFloat) * rounded.scales.unsqueeze(-1);
}

Tensor pack_rows(const Tensor& codes, int bits) {
  const Tensor plain = (codes.to(at::kShort) + (1 << (bits - 1))).to(at::kByte);
  std::vector<int64_t> shape = codes.sizes().vec();
  shape.back() = -1;
  return pack_codes(plain.flatten(0, -2), bits).view(shape);
}

Tensor unpack_rows(const Tensor& packed, int64_t columns, int bits) {
  std::vector<int64_t> shape = packed.sizes().vec();
  shape.back() = columns;
  const Tensor plain = unpack_codes(packed.flatten(0, -2), columns, bits).view(shape);
  return (plain.to(at::kShort) - (1 << (bits - 1))).to(at::kChar);
}

}  // namespace openwork
