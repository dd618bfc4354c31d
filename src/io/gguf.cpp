#include "io/gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "io/byte_reader.h"
#include "io/gguf_metadata.h"

namespace openwork {
namespace {

using nlohmann::json;

constexpr size_t kMaxDimensions = 4;  // ggml's own limit
constexpr uint64_t kMaxTensors = uint64_t{1} << 20;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 16;

// ggml's names of its tensor types, by code; those that DType has under the same name are read.
constexpr std::string_view kTypeNames[] = {
    "F32",   "F16",    "Q4_0",  "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",    "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16",  "",       "",
    "",      "TQ1_0",  "TQ2_0", "",     "",     "",        "MXFP4",  "NVFP4",   "Q1_0",
};

DType read_dtype(uint32_t code, std::string_view tensor, std::string_view origin) {
  const std::string_view name = code < std::size(kTypeNames) ? kTypeNames[code] : "";
  if (const auto dtype = find_dtype(name)) return *dtype;
  fail_input(
      fmt::format("quantisation {} is not supported", name.empty() ? fmt::format("number {}", code) : name),
      describe_tensor(tensor, origin),
      "use a file in F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 or Q2_K to Q6_K");
}

void check_version(ByteReader& reader) {
  if (reader.take_text(4, "the magic number") != "GGUF") {
    fail_input("no GGUF magic number", reader.origin(), "this is not a GGUF file");
  }
  const auto version = reader.read<uint32_t>("the version");
  if (version != 0 && (version & 0xffff) == 0) {
    fail_input("a big-endian GGUF file", reader.origin(), "convert it to little-endian first");
  }
  if (version != 2 && version != 3) {
    fail_input(fmt::format("GGUF version {} is not supported", version), reader.origin(),
               "convert the file to version 3");
  }
}

// Large models come in parts, whose names say `00001-of-00003`; each part has its own header.
void refuse_part(const json& metadata, std::string_view origin) {
  const auto count = metadata.find("split.count");
  if (count == metadata.end() || !count->is_number_unsigned() || count->get<uint64_t>() <= 1) return;
  fail_input(fmt::format("one of {} parts of a split GGUF file", count->get<uint64_t>()), origin,
             "join the parts first (llama-gguf-split --merge)");
}

uint64_t find_alignment(const json& metadata, std::string_view origin) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return 32;
  const uint64_t alignment = found->is_number_unsigned() ? found->get<uint64_t>() : 0;
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    fail_input(fmt::format("general.alignment {} is not a power of two up to {}", alignment, kMaxAlignment),
               origin, kDamagedHeader);
  }
  return alignment;
}

struct TensorInfo {
  TensorEntry entry;
  uint64_t offset = 0, size = 0;  // within the data
};

TensorInfo read_info(ByteReader& reader) {
  TensorInfo info;
  TensorEntry& entry = info.entry;
  entry.name = read_gguf_string(reader, "a tensor name");
  const auto rank = reader.read<uint32_t>("a tensor's dimensions");
  if (rank > kMaxDimensions) {
    fail_input(fmt::format("{} dimensions, more than {}", rank, kMaxDimensions),
               describe_tensor(entry.name, reader.origin()), kDamagedHeader);
  }
  // Sizes above int64 turn negative here, and count_bytes refuses those.
  for (uint32_t i = 0; i < rank; ++i) {
    entry.shape.push_back(static_cast<int64_t>(reader.read<uint64_t>("a tensor's dimensions")));
  }
  std::reverse(entry.shape.begin(), entry.shape.end());
  entry.dtype = read_dtype(reader.read<uint32_t>("a tensor's type"), entry.name, reader.origin());
  info.offset = reader.read<uint64_t>("a tensor's offset");
  info.size = count_bytes(entry.dtype, entry.shape, entry.name, reader.origin());
  return info;
}

// Points the entry at its bytes; offsets count from the start of the aligned data.
void place_tensor(TensorInfo& info, std::span<const std::byte> data, uint64_t alignment,
                  std::string_view origin) {
  if (info.offset % alignment != 0) {
    fail_input(fmt::format("offset {} is not a multiple of the alignment {}", info.offset, alignment),
               describe_tensor(info.entry.name, origin), kDamagedHeader);
  }
  if (info.offset > data.size() || info.size > data.size() - info.offset) {
    fail_input(fmt::format("{} bytes at offset {} run past the file's {} bytes of data", info.size,
                           info.offset, data.size()),
               describe_tensor(info.entry.name, origin), kDamagedAdvice);
  }
  info.entry.bytes = data.subspan(info.offset, info.size);
}

void check_overlap(std::vector<TensorInfo>& infos, std::string_view origin) {
  std::sort(infos.begin(), infos.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.size) < std::tie(b.offset, b.size);
  });
  for (size_t i = 1; i < infos.size(); ++i) {
    if (infos[i - 1].offset + infos[i - 1].size > infos[i].offset) {
      fail_input(fmt::format("its data overlaps that of '{}'", printable(infos[i - 1].entry.name)),
                 describe_tensor(infos[i].entry.name, origin), kDamagedHeader);
    }
  }
}

}  // namespace

TensorListing parse_gguf(std::span<const std::byte> file, std::string_view origin) {
  ByteReader reader(file, origin);
  check_version(reader);
  const auto tensor_count = reader.read<uint64_t>("the tensor count");
  if (tensor_count > kMaxTensors) {
    fail_input(fmt::format("{} tensors, more than {}", tensor_count, kMaxTensors), origin, kDamagedHeader);
  }
  const auto key_count = reader.read<uint64_t>("the key count");
  TensorListing listing;
  listing.metadata = read_gguf_metadata(reader, key_count);
  refuse_part(listing.metadata, origin);
  std::vector<TensorInfo> infos;  // grows with what is really in the file, whatever the count says
  for (uint64_t i = 0; i < tensor_count; ++i) infos.push_back(read_info(reader));
  const uint64_t alignment = find_alignment(listing.metadata, origin);
  const uint64_t start = (reader.position() + alignment - 1) / alignment * alignment;
  const auto data = file.subspan(std::min<uint64_t>(start, file.size()));
  for (TensorInfo& info : infos) place_tensor(info, data, alignment, origin);
  check_overlap(infos, origin);
  for (TensorInfo& info : infos) listing.entries.push_back(std::move(info.entry));
  sort_entries(listing.entries, origin);
  return listing;
}

}  // namespace openwork
