#include "io/tensor_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/near_names.h"
#include "io/tensor_listing.h"

namespace openwork {
namespace {

struct DTypeFacts {
  std::string_view name;
  uint64_t block;  // values that lie together
  uint64_t bytes;  // per block
};

// In the order of DType. Block sizes of the quantised kinds are GGUF's.
constexpr std::array<DTypeFacts, 32> kDTypes = {{
    {"F64", 1, 8},      {"F32", 1, 4},      {"F16", 1, 2},         {"BF16", 1, 2},        {"I64", 1, 8},
    {"I32", 1, 4},      {"I16", 1, 2},      {"I8", 1, 1},          {"U8", 1, 1},          {"U16", 1, 2},
    {"U32", 1, 4},      {"U64", 1, 8},      {"BOOL", 1, 1},        {"C64", 1, 8},         {"F8_E4M3", 1, 1},
    {"F8_E5M2", 1, 1},  {"F8_E8M0", 1, 1},  {"F8_E4M3FNUZ", 1, 1}, {"F8_E5M2FNUZ", 1, 1}, {"F6_E2M3", 4, 3},
    {"F6_E3M2", 4, 3},  {"F4", 2, 1},       {"Q4_0", 32, 18},      {"Q4_1", 32, 20},      {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},   {"Q8_0", 32, 34},   {"Q2_K", 256, 84},     {"Q3_K", 256, 110},    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
}};
static_assert(static_cast<size_t>(DType::kQ6_K) + 1 == kDTypes.size());

const DTypeFacts& facts_of(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)];
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  return facts_of(dtype).name;
}

std::optional<DType> find_dtype(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_quantised(DType dtype) {
  return dtype >= DType::kQ4_0;
}

bool is_listed_only(DType dtype) {
  return dtype >= DType::kC64 && dtype <= DType::kF4;
}

uint64_t dtype_block(DType dtype) {
  return facts_of(dtype).block;
}

uint64_t dtype_bytes(DType dtype, uint64_t count) {
  return count / facts_of(dtype).block * facts_of(dtype).bytes;
}

int64_t TensorEntry::element_count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

bool TensorEntry::is_contiguous() const {
  if (strides.empty() || element_count() == 0) return true;
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

const TensorEntry* TensorFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const TensorEntry& entry, std::string_view n) { return entry.name < n; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

const TensorEntry& TensorFile::at(std::string_view name) const {
  if (const TensorEntry* entry = find(name)) return *entry;
  std::vector<std::string> known;
  for (const TensorEntry& entry : entries_) known.push_back(entry.name);
  std::vector<std::string> near = near_names(name, known, Nearness::kAny);
  for (std::string& other : near) other = "'" + printable(other, 100) + "'";
  const std::string advice = near.empty()
                                 ? fmt::format("it has {} tensors; check the name", entries_.size())
                                 : fmt::format("the nearest names in it are {}", fmt::join(near, ", "));
  fail_input(fmt::format("no tensor '{}'", printable(name)), origin_, advice);
}

void TensorFile::check_shape(std::string_view name, const std::vector<int64_t>& wanted) const {
  const TensorEntry& entry = at(name);
  if (entry.shape == wanted) return;
  fail_input(fmt::format("tensor '{}' has shape [{}], wanted [{}]", printable(name),
                         fmt::join(entry.shape, ", "), fmt::join(wanted, ", ")),
             origin_, "the weights and their configuration must be of the same model");
}

std::string describe_tensor(std::string_view tensor, std::string_view origin) {
  return fmt::format("tensor '{}' of {}", printable(tensor), origin);
}

uint64_t count_values(std::span<const int64_t> shape, std::string_view tensor, std::string_view origin) {
  if (shape.size() > kMaxRank) {
    fail_input(fmt::format("{} dimensions, more than {}", shape.size(), kMaxRank),
               describe_tensor(tensor, origin), "the header lies; fetch the file again");
  }
  int64_t product = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    empty = empty || size == 0;
    if (size < 0 || (size > 0 && __builtin_mul_overflow(product, size, &product))) {
      fail_input(fmt::format("shape [{}] is negative or too large", fmt::join(shape, ", ")),
                 describe_tensor(tensor, origin), "the header lies; fetch the file again");
    }
  }
  return empty ? 0 : static_cast<uint64_t>(product);
}

uint64_t count_bytes(DType dtype, std::span<const int64_t> shape, std::string_view tensor,
                     std::string_view origin) {
  const DTypeFacts& facts = facts_of(dtype);
  const uint64_t values = count_values(shape, tensor, origin);
  const uint64_t row = shape.empty() ? 1 : static_cast<uint64_t>(shape.back());
  const uint64_t whole = is_quantised(dtype) ? row : values;
  if (whole % facts.block != 0) {
    fail_input(fmt::format("rows of {} values are not whole {} blocks of {}", row, facts.name, facts.block),
               describe_tensor(tensor, origin), "the header lies; fetch the file again");
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(values / facts.block, facts.bytes, &bytes)) {
    fail_input(fmt::format("shape [{}] is too large", fmt::join(shape, ", ")),
               describe_tensor(tensor, origin), "the header lies; fetch the file again");
  }
  return bytes;
}

void sort_entries(std::vector<TensorEntry>& entries, std::string_view origin) {
  const auto by_name = [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; };
  std::sort(entries.begin(), entries.end(), by_name);
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != entries.end()) {
    fail_input("a tensor name stands twice", describe_tensor(twice->name, origin), "fetch the weights again");
  }
}

}  // namespace openwork
