#include "io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "io/byte_reader.h"
#include "io/json.h"

namespace openwork {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";

// A header is parsed into many times its size; one larger than this must have tensors that are larger still.
constexpr uint64_t kLargeHeader = 4 << 20;

struct Range {
  uint64_t begin, end;
  const std::string* tensor;  // in the header, which stays put
};

// The format's names are those of DType; quantised kinds are not its own.
DType read_dtype(const json& info, std::string_view tensor, std::string_view origin) {
  const auto found = info.find("dtype");
  const std::string name = found != info.end() && found->is_string() ? found->get<std::string>() : "(none)";
  if (const auto dtype = find_dtype(name); dtype && !is_quantised(*dtype)) return *dtype;
  fail_input(fmt::format("dtype '{}' is not known", printable(name, 60)), describe_tensor(tensor, origin),
             "convert the tensor to F32, F16, BF16 or an integer type");
}

// A JSON array of whole numbers from 0 up, each within int64.
std::vector<int64_t> read_numbers(const json& info, const char* key, std::string_view tensor,
                                  std::string_view origin) {
  const auto found = info.find(key);
  std::vector<int64_t> numbers;
  bool good = found != info.end() && found->is_array() && found->size() <= kMaxRank;
  for (size_t i = 0; good && i < found->size(); ++i) {
    const json& value = (*found)[i];
    good = value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
    if (good) numbers.push_back(value.get<int64_t>());
  }
  if (!good) {
    fail_input(fmt::format("'{}' is not a list of at most {} whole numbers from 0 up", key, kMaxRank),
               describe_tensor(tensor, origin), kDamagedHeader);
  }
  return numbers;
}

Range read_range(const json& info, const std::string& tensor, uint64_t data_size, std::string_view origin) {
  const auto offsets = read_numbers(info, "data_offsets", tensor, origin);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || static_cast<uint64_t>(offsets[1]) > data_size) {
    fail_input(fmt::format("data_offsets [{}] do not lie within the file's {} bytes of data",
                           fmt::join(offsets, ", "), data_size),
               describe_tensor(tensor, origin), kDamagedAdvice);
  }
  return {static_cast<uint64_t>(offsets[0]), static_cast<uint64_t>(offsets[1]), &tensor};
}

TensorEntry read_entry(const std::string& name, const json& info, std::span<const std::byte> data,
                       std::vector<Range>& ranges, std::string_view origin) {
  if (!info.is_object()) fail_input("no JSON object", describe_tensor(name, origin), kDamagedHeader);
  TensorEntry entry;
  entry.name = name;
  entry.dtype = read_dtype(info, name, origin);
  entry.shape = read_numbers(info, "shape", name, origin);
  const Range range = read_range(info, name, data.size(), origin);
  const uint64_t wanted = count_bytes(entry.dtype, entry.shape, name, origin);
  if (wanted != range.end - range.begin) {
    fail_input(fmt::format("{} bytes where shape [{}] of {} takes {}", range.end - range.begin,
                           fmt::join(entry.shape, ", "), dtype_name(entry.dtype), wanted),
               describe_tensor(name, origin), kDamagedHeader);
  }
  entry.bytes = data.subspan(range.begin, range.end - range.begin);
  ranges.push_back(range);
  return entry;
}

// Sorted by place, each tensor begins where the one before ends, and the last ends with the file: bytes that
// belong to two tensors or to none are where files hide things.
void check_ranges(std::vector<Range> ranges, uint64_t data_size, std::string_view origin) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t expected = 0;
  for (const Range& range : ranges) {
    if (range.begin != expected) {
      fail_input(fmt::format("data begins at {} where {} was expected ({})", range.begin, expected,
                             range.begin < expected ? "tensors overlap" : "a hole"),
                 describe_tensor(*range.tensor, origin), kDamagedHeader);
    }
    expected = range.end;
  }
  if (expected != data_size) {
    fail_input(fmt::format("{} bytes after the last tensor", data_size - expected), origin, kDamagedHeader);
  }
}

void check_metadata(const json& metadata, std::string_view origin) {
  const bool good = metadata.is_object() && std::all_of(metadata.begin(), metadata.end(),
                                                        [](const json& value) { return value.is_string(); });
  if (!good) fail_input("'__metadata__' is not an object of strings", origin, kDamagedHeader);
}

json read_header(ByteReader& reader) {
  const auto length = reader.read<uint64_t>("the header length");
  if (length > kMaxSafetensorsHeader) {
    fail_input(fmt::format("a header of {} bytes, more than {}", length, kMaxSafetensorsHeader),
               reader.origin(), "this is not a safetensors file, or its header lies");
  }
  const std::string_view text = reader.take_text(length, "the header");
  if (length > kLargeHeader && length > reader.remaining()) {
    fail_input(fmt::format("a header of {} bytes for {} bytes of tensors", length, reader.remaining()),
               reader.origin(), kDamagedHeader);
  }
  if (text.empty() || text.front() != '{') {
    fail_input("the header is not a JSON object", reader.origin(), "this is not a safetensors file");
  }
  return parse_json(text, fmt::format("header of {}", reader.origin()), DuplicateKeys::kRefuse);
}

}  // namespace

TensorListing parse_safetensors(std::span<const std::byte> file, std::string_view origin) {
  ByteReader reader(file, origin);
  const json header = read_header(reader);
  const auto data = file.subspan(reader.position());
  TensorListing listing;
  std::vector<Range> ranges;
  for (const auto& [name, info] : header.items()) {
    if (name == kMetadataKey) {
      check_metadata(info, origin);
      listing.metadata = info;
    } else {
      listing.entries.push_back(read_entry(name, info, data, ranges, origin));
    }
  }
  check_ranges(std::move(ranges), data.size(), origin);
  sort_entries(listing.entries, origin);
  return listing;
}

}  // namespace openwork
