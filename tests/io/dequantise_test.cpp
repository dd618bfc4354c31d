#include "io/dequantise.h"

#include <bit>
#include <cmath>
#include <random>

#include "base/parallel.h"
#include "io/half.h"
#include "io/test_files.h"

namespace openwork {
namespace {

std::vector<float> read_all(const TensorEntry& entry) {
  std::vector<float> values(static_cast<size_t>(entry.element_count()));
  read_f32(entry, values);
  return values;
}

// Golden: the file's tensors, of every dtype, have the very bits that the reference gives.
TEST(Dequantise, MatchesTheReferenceBitForBit) {
  const auto quantised = open_weights("tests/data/gguf_quants.gguf");
  const auto expected = open_weights("tests/data/gguf_quants.safetensors");
  ASSERT_EQ(quantised->entries().size(), 13u);
  for (const TensorEntry& entry : quantised->entries()) {
    const auto values = read_all(entry), wanted = read_all(expected->at(entry.name));
    ASSERT_EQ(values.size(), wanted.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(wanted[i]))
          << entry.name << " " << i;
    }
  }
}

TEST(Dequantise, GivesTheSameOnAnyNumberOfThreads) {
  const auto file = open_weights("tests/data/gguf_quants.gguf");
  const TensorEntry& small = file->at("q4_k");
  // The same blocks many times over make a tensor large enough to be shared out.
  std::string many;
  for (int i = 0; i < 300; ++i)
    many.append(reinterpret_cast<const char*>(small.bytes.data()), small.bytes.size());
  const TensorEntry large{"large", small.dtype, {300 * 6, 512}, {}, as_span(many)};
  const auto one = read_all(small);
  for (const int threads : {1, 4}) {
    set_thread_count(threads);
    const auto values = read_all(large);
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], one[i % one.size()]) << i;
  }
  set_thread_count(0);
}

// The value of a half by its definition.
float half_by_definition(uint16_t bits) {
  const int sign = bits >> 15, exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value =
      std::ldexp(static_cast<float>(exponent ? 1024 + fraction : fraction), (exponent ? exponent : 1) - 25);
  if (exponent == 31) value = fraction ? NAN : INFINITY;
  return sign ? -value : value;
}

TEST(ReadF32, ConvertsEveryHalfExactly) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const TensorEntry entry{"halves", DType::kF16, {65536}, {}, std::as_bytes(std::span(halves))};
  const auto values = read_all(entry);
  for (size_t i = 0; i < values.size(); ++i) {
    const float wanted = half_by_definition(halves[i]), plain = f16_to_float(halves[i]);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(values[i]) && std::isnan(plain)) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(wanted)) << i;
      ASSERT_EQ(std::bit_cast<uint32_t>(plain), std::bit_cast<uint32_t>(wanted)) << i;
    }
  }
}

template <typename Number>
void expect_converted(DType dtype, const std::vector<Number>& numbers, const std::vector<float>& wanted) {
  const TensorEntry entry{
      "x", dtype, {static_cast<int64_t>(numbers.size())}, {}, std::as_bytes(std::span(numbers))};
  EXPECT_EQ(read_all(entry), wanted) << dtype_name(dtype);
}

TEST(ReadF32, ConvertsEveryPlainDtype) {
  expect_converted<double>(DType::kF64, {1.5, -1e300}, {1.5f, -INFINITY});
  expect_converted<float>(DType::kF32, {1.5f, -2}, {1.5f, -2});
  expect_converted<uint16_t>(DType::kBF16, {0x3fc0, 0xc000}, {1.5f, -2});
  expect_converted<int64_t>(DType::kI64, {-3, 1ll << 40}, {-3, 0x1p40f});
  expect_converted<int32_t>(DType::kI32, {-3, 7}, {-3, 7});
  expect_converted<int16_t>(DType::kI16, {-3, 7}, {-3, 7});
  expect_converted<int8_t>(DType::kI8, {-3, 7}, {-3, 7});
  expect_converted<uint8_t>(DType::kU8, {253, 7}, {253, 7});
  expect_converted<uint16_t>(DType::kU16, {65533, 7}, {65533, 7});
  expect_converted<uint32_t>(DType::kU32, {1u << 31, 7}, {0x1p31f, 7});
  expect_converted<uint64_t>(DType::kU64, {1ull << 63, 7}, {0x1p63f, 7});
  expect_converted<uint8_t>(DType::kBool, {0, 1, 2}, {0, 1, 1});
}

// Strides as a permutation of the axes of a contiguous tensor, against indexing by hand.
TEST(ReadF32, FollowsStrides) {
  std::vector<int32_t> numbers(4 * 5 * 6);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i);
  const TensorEntry entry{"x", DType::kI32, {6, 4, 5}, {1, 30, 6}, std::as_bytes(std::span(numbers))};
  EXPECT_FALSE(entry.is_contiguous());
  const auto values = read_all(entry);
  std::vector<int32_t> copied(numbers.size());
  read_bytes(entry, std::as_writable_bytes(std::span(copied)));
  size_t at = 0;
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int k = 0; k < 5; ++k, ++at) {
        ASSERT_EQ(values[at], static_cast<float>(i + 30 * j + 6 * k));
        ASSERT_EQ(copied[at], i + 30 * j + 6 * k);
      }
    }
  }
}

TEST(ReadF32, SharesOutLargeStridedTensors) {
  const int64_t rows = 700, columns = 900;
  std::vector<int16_t> numbers(static_cast<size_t>(rows * columns));
  std::mt19937 random(3);
  for (int16_t& number : numbers) number = static_cast<int16_t>(random());
  const TensorEntry transposed{
      "x", DType::kI16, {columns, rows}, {1, columns}, std::as_bytes(std::span(numbers))};
  const auto values = read_all(transposed);
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t j = 0; j < rows; ++j) {
      ASSERT_EQ(values[static_cast<size_t>(i * rows + j)], numbers[static_cast<size_t>(j * columns + i)]);
    }
  }
}

TEST(ReadF32, RefusesRoomOfTheWrongSize) {
  const std::vector<float> numbers = {1, 2, 3};
  const TensorEntry entry{"x", DType::kF32, {3}, {}, std::as_bytes(std::span(numbers))};
  std::vector<float> room(4);
  expect_failure(Error::Kind::kFailure, "room for 4 where tensor 'x' takes 3",
                 [&] { read_f32(entry, room); });
  expect_failure(Error::Kind::kFailure, "room for 16 where tensor 'x' takes 12",
                 [&] { read_bytes(entry, std::as_writable_bytes(std::span(room))); });
}

TEST(ReadBytes, RefusesQuantisedTensors) {
  const auto file = open_weights("tests/data/gguf_quants.gguf");
  std::vector<std::byte> room(6 * 512);
  expect_failure(Error::Kind::kFailure, "is quantised (Q4_0)", [&] { read_bytes(file->at("q4_0"), room); });
}

}  // namespace
}  // namespace openwork
