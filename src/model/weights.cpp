#include "model/weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"

namespace openwork {
namespace {

std::optional<at::ScalarType> torch_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return at::kDouble;
    case DType::kF32:
      return at::kFloat;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    default:
      return std::nullopt;
  }
}

// A float is infinite or not a number exactly when all its exponent bits are set.
template <typename Bits>
bool all_finite_bits(const void* data, size_t count, Bits exponent) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::atomic<bool> finite{true};
  parallel_for((count + kPiece - 1) / kPiece, [&](size_t piece) {
    const auto* bits = static_cast<const Bits*>(data) + piece * kPiece;
    const size_t length = std::min(kPiece, count - piece * kPiece);
    bool bad = false;
    for (size_t n = 0; n < length; ++n) bad |= (bits[n] & exponent) == exponent;
    if (bad) finite = false;
  });
  return finite;
}

void check_finite(const Tensor& tensor, const std::string& name, const std::string& origin) {
  const auto count = static_cast<size_t>(tensor.numel());
  bool finite = true;
  switch (tensor.scalar_type()) {
    case at::kDouble:
      finite = all_finite_bits<uint64_t>(tensor.data_ptr(), count, 0x7ff0000000000000ull);
      break;
    case at::kFloat:
      finite = all_finite_bits<uint32_t>(tensor.data_ptr(), count, 0x7f800000u);
      break;
    case at::kBFloat16:
      finite = all_finite_bits<uint16_t>(tensor.data_ptr(), count, uint16_t{0x7f80});
      break;
    case at::kHalf:
      finite = all_finite_bits<uint16_t>(tensor.data_ptr(), count, uint16_t{0x7c00});
      break;
    default:
      break;
  }
  if (!finite) {
    fail_input(fmt::format("tensor '{}' holds numbers that are not finite", printable(name)), origin,
               "fetch or export the weights again");
  }
}

}  // namespace

WeightReader::WeightReader(std::shared_ptr<const TensorFile> file, at::ScalarType dtype, bool copy)
    : file_(std::move(file)), dtype_(dtype), copy_(copy) {}

Tensor WeightReader::read(const std::string& name) const {
  Tensor tensor = read_unchecked(name);
  check_finite(tensor, name, file_->origin());
  return tensor;
}

Tensor WeightReader::read_gate(const std::string& name, bool may_be_infinite) const {
  const WeightReader wide(file_, at::kFloat, copy_);
  if (!may_be_infinite) return wide.read(name);
  Tensor tensor = wide.read_unchecked(name);
  if (tensor.isnan().any().item<bool>()) {
    fail_input(fmt::format("tensor '{}' holds what is not a number", printable(name)), file_->origin(),
               "fetch or export the weights again");
  }
  return tensor;
}

Tensor WeightReader::read_unchecked(const std::string& name) const {
  const TensorEntry& entry = file_->at(name);
  const std::optional<at::ScalarType> stored = torch_dtype(entry.dtype);
  if (stored) return read_mapped(entry, *stored);
  if (is_quantised(entry.dtype)) return read_quantised(entry);
  fail_input(fmt::format("tensor '{}' has dtype {}", printable(name), dtype_name(entry.dtype)),
             file_->origin(), "weights must be F64, F32, F16, BF16 or quantised by GGUF");
}

Tensor WeightReader::read_mapped(const TensorEntry& entry, at::ScalarType stored) const {
  const auto address = reinterpret_cast<uintptr_t>(entry.bytes.data());
  const bool aligned = address % c10::elementSize(stored) == 0;
  if (!aligned || !entry.is_contiguous()) {
    Tensor copy = at::empty(entry.shape, at::TensorOptions().dtype(stored));
    read_bytes(entry, {static_cast<std::byte*>(copy.data_ptr()), static_cast<size_t>(copy.nbytes())});
    return copy.to(dtype_);
  }
  // The view keeps the file open for as long as any tensor lies in it.
  void* data = const_cast<std::byte*>(entry.bytes.data());
  const Tensor view = at::from_blob(
      data, entry.shape, [file = file_](void*) {}, at::TensorOptions().dtype(stored));
  if (stored == dtype_ && !copy_) return view;
  Tensor converted = at::empty(entry.shape, at::TensorOptions().dtype(dtype_));
  converted.copy_(view);
  file_->release(entry);
  return converted;
}

Tensor WeightReader::read_quantised(const TensorEntry& entry) const {
  constexpr int64_t kPiece = int64_t{1} << 22;  // numbers per piece: bounds the float copy
  Tensor result = at::empty(entry.shape, at::TensorOptions().dtype(dtype_));
  const int64_t total = entry.element_count(), row = entry.shape.empty() ? 1 : entry.shape.back();
  const int64_t step =
      std::max<int64_t>(1, kPiece / std::max<int64_t>(1, row)) * row;  // whole rows: whole blocks
  Tensor flat = result.view({-1}),
         piece = at::empty({std::min(step, total)}, at::TensorOptions().dtype(at::kFloat));
  for (int64_t begin = 0; begin < total; begin += step) {
    const int64_t count = std::min(step, total - begin);
    const uint64_t offset = dtype_bytes(entry.dtype, static_cast<uint64_t>(begin));
    TensorEntry part{entry.name,
                     entry.dtype,
                     {count},
                     {},
                     entry.bytes.subspan(offset, dtype_bytes(entry.dtype, static_cast<uint64_t>(count)))};
    read_f32(part, {piece.data_ptr<float>(), static_cast<size_t>(count)});
    flat.narrow(0, begin, count).copy_(piece.narrow(0, 0, count));
  }
  file_->release(entry);
  return result;
}

}  // namespace openwork
