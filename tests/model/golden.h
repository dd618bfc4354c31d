// Golden files: reading their tensors and comparing against them.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "io/tensor_file.h"

namespace openwork {

// Every tensor of a safetensors file: float64 for floating-point ones, int64 for whole numbers.
inline std::map<std::string, at::Tensor> read_golden(const std::filesystem::path& path) {
  std::map<std::string, at::Tensor> tensors;
  const auto file = open_weights(path);
  for (const TensorEntry& entry : file->entries()) {
    if (entry.dtype == DType::kI64) {
      at::Tensor whole = at::empty(entry.shape, at::kLong);
      read_bytes(entry, {static_cast<std::byte*>(whole.data_ptr()), whole.nbytes()});
      tensors[entry.name] = whole;
    } else {
      at::Tensor numbers = at::empty(entry.shape, at::kFloat);
      read_f32(entry, {numbers.data_ptr<float>(), static_cast<size_t>(numbers.numel())});
      tensors[entry.name] = numbers.to(at::kDouble);
    }
  }
  return tensors;
}

// |actual - expected| <= absolute + relative * |expected|, everywhere.
inline void expect_close(const at::Tensor& actual, const at::Tensor& expected, const std::string& name,
                         double absolute = 1e-4, double relative = 1e-3) {
  ASSERT_TRUE(actual.sizes().equals(expected.sizes())) << name << " has shape " << actual.sizes();
  const at::Tensor difference = (actual.detach().cpu().to(at::kDouble) - expected).abs();
  const at::Tensor excess = difference - (absolute + relative * expected.abs());
  EXPECT_LE(excess.max().item<double>(), 0)
      << name << ": largest difference " << difference.max().item<double>();
}

}  // namespace openwork
