// What a parser makes of a file's bytes: entries that point into them, and what the file says of itself.
// The parsers (parse_safetensors, parse_gguf, parse_pth) work on any span, a map or a fuzzer's input.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "io/tensor_file.h"

namespace openwork {

struct TensorListing {
  std::vector<TensorEntry> entries;
  nlohmann::json metadata = nlohmann::json::object();
};

// More dimensions than any torch tensor has.
inline constexpr size_t kMaxRank = 64;

// How many values a shape holds; fails, naming the tensor and the file, when a dimension is negative, there
// are more than kMaxRank of them, or the count does not fit (zeros do not hide such a shape).
uint64_t count_values(std::span<const int64_t> shape, std::string_view tensor, std::string_view origin);

// Bytes of a whole tensor. Fails as count_values, and when a quantised row is not whole blocks.
uint64_t count_bytes(DType dtype, std::span<const int64_t> shape, std::string_view tensor,
                     std::string_view origin);

// Sorts entries by name and fails when a name stands twice.
void sort_entries(std::vector<TensorEntry>& entries, std::string_view origin);

// "tensor 'x' of FILE", for the middle part of an error.
std::string describe_tensor(std::string_view tensor, std::string_view origin);

}  // namespace openwork
