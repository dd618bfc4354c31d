// read_f32 and read_bytes of io/tensor_file.h: whole tensors out of their bytes, on all threads when large.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/error.h"
#include "base/parallel.h"
#include "io/byte_reader.h"
#include "io/dequantise.h"
#include "io/half.h"
#include "io/tensor_file.h"

namespace openwork {
namespace {

constexpr size_t kChunk = size_t{1} << 16;  // values a thread takes at a time; a multiple of every block

template <typename Number>
void convert_numbers(const std::byte* from, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(load_number<Number>(from + i * sizeof(Number)));
  }
}

void convert_bf16(const std::byte* from, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = bf16_to_float(load_number<uint16_t>(from + 2 * i));
}

void convert_f16_plain(const std::byte* from, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = f16_to_float(load_number<uint16_t>(from + 2 * i));
}

#if defined(__x86_64__)
// The processor's own conversion, eight at a time.
__attribute__((target("avx,f16c"))) void convert_f16_fast(const std::byte* from, size_t count, float* out) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  convert_f16_plain(from + 2 * i, count - i, out + i);
}

void convert_f16(const std::byte* from, size_t count, float* out) {
  // Not every compiler can ask for f16c; processors with avx2 have it.
  static const bool fast = __builtin_cpu_supports("avx2");
  fast ? convert_f16_fast(from, count, out) : convert_f16_plain(from, count, out);
}
#else
void convert_f16(const std::byte* from, size_t count, float* out) {
  convert_f16_plain(from, count, out);
}
#endif

void convert(DType dtype, const std::byte* from, size_t count, float* out) {
  // clang-format off
  switch (dtype) {
    case DType::kF64: return convert_numbers<double>(from, count, out);
    case DType::kF32:
      std::memcpy(out, from, count * sizeof(float));
      return;
    case DType::kF16: return convert_f16(from, count, out);
    case DType::kBF16: return convert_bf16(from, count, out);
    case DType::kI64: return convert_numbers<int64_t>(from, count, out);
    case DType::kI32: return convert_numbers<int32_t>(from, count, out);
    case DType::kI16: return convert_numbers<int16_t>(from, count, out);
    case DType::kI8: return convert_numbers<int8_t>(from, count, out);
    case DType::kU8: return convert_numbers<uint8_t>(from, count, out);
    case DType::kU16: return convert_numbers<uint16_t>(from, count, out);
    case DType::kU32: return convert_numbers<uint32_t>(from, count, out);
    case DType::kU64: return convert_numbers<uint64_t>(from, count, out);
    case DType::kBool:
      for (size_t i = 0; i < count; ++i) out[i] = from[i] != std::byte{0} ? 1.0f : 0.0f;
      return;
    default: return dequantise_blocks(dtype, from, count / dtype_block(dtype), out);
  }
  // clang-format on
}

// work(first, count) over [0, total) in chunks; small totals stay on this thread.
template <typename Work>
void for_chunks(size_t total, size_t chunk, const Work& work) {
  const size_t chunks = (total + chunk - 1) / chunk;
  const auto run = [&](size_t i) { work(i * chunk, std::min(chunk, total - i * chunk)); };
  if (chunks <= 4) {
    for (size_t i = 0; i < chunks; ++i) run(i);
  } else {
    parallel_for(chunks, run);
  }
}

// Where row `row` (all dimensions but the last, counted through) starts, in values.
int64_t find_row(const TensorEntry& entry, size_t row) {
  int64_t start = 0;
  for (size_t d = entry.shape.size() - 1; d-- > 0;) {
    start += static_cast<int64_t>(row % static_cast<size_t>(entry.shape[d])) * entry.strides[d];
    row /= static_cast<size_t>(entry.shape[d]);
  }
  return start;
}

// `length` values of kSize bytes, `step` bytes apart, into `out`.
template <size_t kSize>
void gather_values(const std::byte* from, size_t length, size_t step, std::byte* out) {
  for (size_t i = 0; i < length; ++i) std::memcpy(out + i * kSize, from + i * step, kSize);
}

// A strided tensor's rows, one after the other, into `out`.
void gather_rows(const TensorEntry& entry, size_t first, size_t rows, std::byte* out) {
  const size_t size = dtype_bytes(entry.dtype, 1), length = static_cast<size_t>(entry.shape.back());
  const size_t step = static_cast<size_t>(entry.strides.back()) * size;
  const auto gather = size == 1   ? gather_values<1>
                      : size == 2 ? gather_values<2>
                      : size == 4 ? gather_values<4>
                                  : gather_values<8>;
  for (size_t row = first; row < first + rows; ++row) {
    const std::byte* from = entry.bytes.data() + static_cast<size_t>(find_row(entry, row)) * size;
    gather(from, length, step, out + (row - first) * length * size);
  }
}

void read_strided_f32(const TensorEntry& entry, std::span<float> out) {
  const auto length = static_cast<size_t>(entry.shape.back());
  const size_t size = dtype_bytes(entry.dtype, 1);
  for_chunks(out.size() / length, std::max<size_t>(1, kChunk / length), [&](size_t first, size_t rows) {
    std::vector<std::byte> gathered(rows * length * size);
    gather_rows(entry, first, rows, gathered.data());
    convert(entry.dtype, gathered.data(), rows * length, out.data() + first * length);
  });
}

void check_size(const TensorEntry& entry, uint64_t given, uint64_t wanted) {
  if (given == wanted) return;
  fail(fmt::format("room for {} where tensor '{}' takes {}", given, printable(entry.name), wanted),
       "reading a tensor", "report this");
}

}  // namespace

void read_f32(const TensorEntry& entry, std::span<float> out) {
  check_size(entry, out.size(), static_cast<uint64_t>(entry.element_count()));
  if (is_listed_only(entry.dtype)) {
    fail_input(fmt::format("tensor '{}' has dtype {}", printable(entry.name), dtype_name(entry.dtype)),
               "reading a tensor", "convert it to F32, F16 or BF16 first");
  }
  if (out.empty()) return;
  if (!entry.is_contiguous()) return read_strided_f32(entry, out);
  for_chunks(out.size(), kChunk, [&](size_t first, size_t count) {
    convert(entry.dtype, entry.bytes.data() + dtype_bytes(entry.dtype, first), count, out.data() + first);
  });
}

void read_bytes(const TensorEntry& entry, std::span<std::byte> out) {
  if (is_quantised(entry.dtype)) {
    fail(fmt::format("tensor '{}' is quantised ({})", printable(entry.name), dtype_name(entry.dtype)),
         "reading a tensor's bytes", "read it as floats");
  }
  const uint64_t size = dtype_bytes(entry.dtype, 1);
  check_size(entry, out.size(), static_cast<uint64_t>(entry.element_count()) * size);
  if (out.empty()) return;
  if (entry.is_contiguous()) {
    for_chunks(out.size(), kChunk * 8, [&](size_t first, size_t count) {
      std::memcpy(out.data() + first, entry.bytes.data() + first, count);
    });
    return;
  }
  const auto length = static_cast<size_t>(entry.shape.back());
  for_chunks(out.size() / size / length, std::max<size_t>(1, kChunk / length),
             [&](size_t first, size_t rows) {
               gather_rows(entry, first, rows, out.data() + first * length * size);
             });
}

}  // namespace openwork
