// Block layouts, in file order (d, m: F16 scale and offset of the block; q: packed small integers):
//   Q4_0 d q[16]           value = d (q - 8)        low nibbles are values 0..15, high ones 16..31
//   Q4_1 d m q[16]         value = d q + m
//   Q5_0 d h[4] q[16]      value = d (q - 16)       bit i of h is the fifth bit of value i
//   Q5_1 d m h[4] q[16]    value = d q + m
//   Q8_0 d q[32]           value = d q
//   Q2_K s[16] q[64] d m             16 groups of 16, each with a 4-bit scale and offset in s
//   Q3_K h[32] q[64] s[12] d         16 groups of 16, each with a 6-bit scale in s
//   Q4_K d m s[12] q[128]            8 groups of 32, each with a 6-bit scale and offset in s
//   Q5_K d m s[12] h[32] q[128]      as Q4_K, with fifth bits in h
//   Q6_K l[128] h[64] s[16] d        16 groups of 16, each with an 8-bit scale in s
#include "io/dequantise.h"

#include "base/error.h"
#include "io/byte_reader.h"
#include "io/half.h"

namespace openwork {
namespace {

using Block = const uint8_t*;

float read_half(Block at) {
  return f16_to_float(load_number<uint16_t>(reinterpret_cast<const std::byte*>(at)));
}

void expand_q4_0(Block block, float* out) {
  const float d = read_half(block);
  const Block q = block + 2;
  for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>((q[i] & 15) - 8);
  for (int i = 0; i < 16; ++i) out[16 + i] = d * static_cast<float>((q[i] >> 4) - 8);
}

void expand_q4_1(Block block, float* out) {
  const float d = read_half(block), m = read_half(block + 2);
  const Block q = block + 4;
  for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>(q[i] & 15) + m;
  for (int i = 0; i < 16; ++i) out[16 + i] = d * static_cast<float>(q[i] >> 4) + m;
}

// The five-bit integers of a Q5_0 or Q5_1 block.
void unpack_five_bits(Block high, Block q, int* values) {
  const auto bits = load_number<uint32_t>(reinterpret_cast<const std::byte*>(high));
  for (int i = 0; i < 16; ++i) values[i] = (q[i] & 15) | static_cast<int>(bits >> i & 1) << 4;
  for (int i = 0; i < 16; ++i) values[16 + i] = (q[i] >> 4) | static_cast<int>(bits >> (16 + i) & 1) << 4;
}

void expand_q5_0(Block block, float* out) {
  const float d = read_half(block);
  int values[32];
  unpack_five_bits(block + 2, block + 6, values);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(values[i] - 16);
}

void expand_q5_1(Block block, float* out) {
  const float d = read_half(block), m = read_half(block + 2);
  int values[32];
  unpack_five_bits(block + 4, block + 8, values);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(values[i]) + m;
}

void expand_q8_0(Block block, float* out) {
  const float d = read_half(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// Q2_K and Q3_K: group g of 16 values takes bits 2 (g/2 mod 4) of 16 of the 64 bytes; this is where they
// start.
constexpr ptrdiff_t packed_start(ptrdiff_t group) {
  return group / 8 * 32 + group % 2 * 16;
}
constexpr int packed_shift(int group) {
  return group / 2 % 4 * 2;
}

void expand_q2_k(Block block, float* out) {
  const Block scales = block, q = block + 16;
  const float d = read_half(block + 80), m = read_half(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(scales[group] & 15);
    const float offset = m * static_cast<float>(scales[group] >> 4);
    const Block packed = q + packed_start(group);
    const int shift = packed_shift(group);
    for (int i = 0; i < 16; ++i) {
      out[group * 16 + i] = scale * static_cast<float>(packed[i] >> shift & 3) - offset;
    }
  }
}

// 16 scales of six bits: low four in bytes 0 to 7 (two apiece), high two in bytes 8 to 11 (four apiece).
int q3_k_scale(Block s, int group) {
  const int low = group < 8 ? s[group] & 15 : s[group - 8] >> 4;
  const int high = s[8 + group % 4] >> (group / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

void expand_q3_k(Block block, float* out) {
  const Block high = block, q = block + 32, scales = block + 96;
  const float d = read_half(block + 108);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(q3_k_scale(scales, group));
    const Block packed = q + packed_start(group), mask = high + ptrdiff_t{group % 2} * 16;
    const int shift = packed_shift(group), bit = group / 2;
    for (int i = 0; i < 16; ++i) {
      // A set high bit means no offset.
      const int value = (packed[i] >> shift & 3) - (mask[i] >> bit & 1 ? 0 : 4);
      out[group * 16 + i] = scale * static_cast<float>(value);
    }
  }
}

struct ScaleAndOffset {
  int scale, offset;
};

// 8 scales and 8 offsets of six bits each in 12 bytes: the first four whole in bytes 0 to 7, whose top bits
// complete the nibbles of the last four in bytes 8 to 11.
ScaleAndOffset q4_k_scale(Block s, int group) {
  if (group < 4) return {s[group] & 63, s[group + 4] & 63};
  return {(s[group + 4] & 15) | (s[group - 4] >> 6) << 4, (s[group + 4] >> 4) | (s[group] >> 6) << 4};
}

// Q4_K and Q5_K; `high` is null for the former.
void expand_k_nibbles(Block block, Block high, Block q, float* out) {
  const float d = read_half(block), m = read_half(block + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndOffset s = q4_k_scale(block + 4, group);
    const float scale = d * static_cast<float>(s.scale), offset = m * static_cast<float>(s.offset);
    const Block packed = q + ptrdiff_t{group / 2} * 32;
    const int shift = group % 2 * 4;
    int values[32];
    for (int i = 0; i < 32; ++i) values[i] = packed[i] >> shift & 15;
    if (high) {
      for (int i = 0; i < 32; ++i) values[i] |= (high[i] >> group & 1) << 4;
    }
    for (int i = 0; i < 32; ++i) out[group * 32 + i] = scale * static_cast<float>(values[i]) - offset;
  }
}

void expand_q4_k(Block block, float* out) {
  expand_k_nibbles(block, nullptr, block + 16, out);
}
void expand_q5_k(Block block, float* out) {
  expand_k_nibbles(block, block + 16, block + 48, out);
}

void expand_q6_k(Block block, float* out) {
  const Block low = block, high = block + 128, scales = block + 192;
  const float d = read_half(block + 208);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[group]));
    // Within each half of 128 values: four runs of 32, low nibbles of 64 bytes first, then high ones.
    const ptrdiff_t half = group / 8, odd = group % 2;
    const int run = group / 2 % 4;
    const Block nibbles = low + half * 64 + ptrdiff_t{run % 2} * 32 + odd * 16;
    const Block pairs = high + half * 32 + odd * 16;
    const int nibble_shift = run / 2 * 4, pair_shift = run * 2;
    for (int i = 0; i < 16; ++i) {
      const int value = (nibbles[i] >> nibble_shift & 15) | (pairs[i] >> pair_shift & 3) << 4;
      out[group * 16 + i] = scale * static_cast<float>(value - 32);
    }
  }
}

template <void (*expand)(Block, float*), size_t kBytes, size_t kValues>
void expand_all(const std::byte* blocks, size_t count, float* out) {
  const auto* block = reinterpret_cast<Block>(blocks);
  for (size_t i = 0; i < count; ++i) expand(block + i * kBytes, out + i * kValues);
}

}  // namespace

void dequantise_blocks(DType dtype, const std::byte* blocks, size_t count, float* out) {
  // clang-format off
  switch (dtype) {
    case DType::kQ4_0: return expand_all<expand_q4_0, 18, 32>(blocks, count, out);
    case DType::kQ4_1: return expand_all<expand_q4_1, 20, 32>(blocks, count, out);
    case DType::kQ5_0: return expand_all<expand_q5_0, 22, 32>(blocks, count, out);
    case DType::kQ5_1: return expand_all<expand_q5_1, 24, 32>(blocks, count, out);
    case DType::kQ8_0: return expand_all<expand_q8_0, 34, 32>(blocks, count, out);
    case DType::kQ2_K: return expand_all<expand_q2_k, 84, 256>(blocks, count, out);
    case DType::kQ3_K: return expand_all<expand_q3_k, 110, 256>(blocks, count, out);
    case DType::kQ4_K: return expand_all<expand_q4_k, 144, 256>(blocks, count, out);
    case DType::kQ5_K: return expand_all<expand_q5_k, 176, 256>(blocks, count, out);
    case DType::kQ6_K: return expand_all<expand_q6_k, 210, 256>(blocks, count, out);
    default: fail("not a quantised dtype", dtype_name(dtype), "report this");
  }
  // clang-format on
}

}  // namespace openwork
