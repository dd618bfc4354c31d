// The writing half of io/safetensors.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"

namespace openwork {
namespace {

// The reference implementation's order of dtypes, widest first.
size_t rank_of(DType dtype) {
  constexpr std::array kOrder = {DType::kU64, DType::kI64,  DType::kF64, DType::kF32, DType::kU32,
                                 DType::kI32, DType::kBF16, DType::kF16, DType::kU16, DType::kI16,
                                 DType::kI8,  DType::kU8,   DType::kBool};
  return static_cast<size_t>(std::find(kOrder.begin(), kOrder.end(), dtype) - kOrder.begin());
}

void check_tensor(const OutputTensor& tensor, std::string_view origin) {
  const std::string where = describe_tensor(tensor.name, origin);
  if (is_quantised(tensor.dtype)) {
    fail_input(fmt::format("safetensors has no dtype {}", dtype_name(tensor.dtype)), where,
               "dequantise it first");
  }
  if (tensor.name == "__metadata__" || find_invalid_utf8(tensor.name) != std::string::npos) {
    fail_input("safetensors cannot hold this tensor name", where, "name it otherwise");
  }
  const uint64_t wanted = count_bytes(tensor.dtype, tensor.shape, tensor.name, origin);
  if (!tensor.produce && tensor.bytes.size() != wanted) {
    fail(fmt::format("{} bytes given where {} are needed", tensor.bytes.size(), wanted), where,
         "report this");
  }
}

void sort_tensors(std::vector<OutputTensor>& tensors, std::string_view origin) {
  std::sort(tensors.begin(), tensors.end(), [](const OutputTensor& a, const OutputTensor& b) {
    const size_t first = rank_of(a.dtype), second = rank_of(b.dtype);
    return first != second ? first < second : a.name < b.name;
  });
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const OutputTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    fail_input("two tensors of one name", describe_tensor(*twice, origin), "name one of them otherwise");
  }
}

std::string quote(std::string_view text, std::string_view origin) {
  if (find_invalid_utf8(text) != std::string_view::npos) {
    fail_input(fmt::format("metadata '{}' is not UTF-8", printable(text, 60)), origin, "write it as UTF-8");
  }
  return nlohmann::json(text).dump();
}

// The header, padded with spaces to whole 8 bytes so that the data after it is aligned.
std::string make_header(const std::vector<OutputTensor>& tensors,
                        const std::map<std::string, std::string>& metadata, std::string_view origin) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    pairs.reserve(metadata.size());
    for (const auto& [key, value] : metadata)
      pairs.push_back(quote(key, origin) + ":" + quote(value, origin));
    members.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(pairs, ",")));
  }
  uint64_t offset = 0;
  for (const OutputTensor& tensor : tensors) {
    const uint64_t end = offset + count_bytes(tensor.dtype, tensor.shape, tensor.name, origin);
    members.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  quote(tensor.name, origin), dtype_name(tensor.dtype),
                                  fmt::join(tensor.shape, ","), offset, end));
    offset = end;
  }
  std::string header = fmt::format("{{{}}}", fmt::join(members, ","));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

void write_tensor(AtomicFile& file, const OutputTensor& tensor, std::string_view origin) {
  if (!tensor.produce) return file.write(tensor.bytes);
  const uint64_t wanted = count_bytes(tensor.dtype, tensor.shape, tensor.name, origin);
  uint64_t given = 0;
  tensor.produce([&](std::span<const std::byte> piece) {
    given += piece.size();
    if (given <= wanted) file.write(piece);
  });
  if (given != wanted) {
    fail(fmt::format("{} bytes produced where {} are needed", given, wanted),
         describe_tensor(tensor.name, origin), "report this");
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::vector<OutputTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string origin = path.string();
  uint64_t size = 0;
  for (const OutputTensor& tensor : tensors) {
    check_tensor(tensor, origin);
    size += count_bytes(tensor.dtype, tensor.shape, tensor.name, origin);
  }
  sort_tensors(tensors, origin);
  const std::string header = make_header(tensors, metadata, origin);
  const uint64_t header_size = header.size();
  AtomicFile file(path);
  file.reserve(sizeof header_size + header_size + size);
  file.write(std::as_bytes(std::span(&header_size, 1)));
  file.write(header);
  for (const OutputTensor& tensor : tensors) write_tensor(file, tensor, origin);
  file.commit();
}

}  // namespace openwork
