#include "io/gguf_metadata.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/utf8.h"

namespace openwork {
namespace {

using nlohmann::json;

constexpr size_t kMaxArrayDepth = 4;                // arrays within arrays
constexpr uint64_t kMaxValues = uint64_t{1} << 24;  // in all; vocabularies have some 10^5
constexpr uint64_t kMaxText = uint64_t{1} << 28;    // bytes of strings, in all

// clang-format off
enum class ValueType : uint32_t {
  kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64,
};
// clang-format on

// Reads the metadata's typed values; their number is bounded, as each is far larger in memory than in the
// file.
class ValueReader {
 public:
  explicit ValueReader(ByteReader& reader) : reader_(reader) {}

  json read(uint32_t type, std::string_view key, size_t depth = 0) {
    if (++values_ > kMaxValues) refuse(fmt::format("more than {} metadata values", kMaxValues), key);
    // clang-format off
    switch (static_cast<ValueType>(type)) {
      case ValueType::kU8: return reader_.read<uint8_t>(key);
      case ValueType::kI8: return reader_.read<int8_t>(key);
      case ValueType::kU16: return reader_.read<uint16_t>(key);
      case ValueType::kI16: return reader_.read<int16_t>(key);
      case ValueType::kU32: return reader_.read<uint32_t>(key);
      case ValueType::kI32: return reader_.read<int32_t>(key);
      case ValueType::kF32: return reader_.read<float>(key);
      case ValueType::kBool: return reader_.read<uint8_t>(key) != 0;
      case ValueType::kString: return read_text(key);
      case ValueType::kArray: return read_array(key, depth);
      case ValueType::kU64: return reader_.read<uint64_t>(key);
      case ValueType::kI64: return reader_.read<int64_t>(key);
      case ValueType::kF64: return reader_.read<double>(key);
      default: refuse(fmt::format("value type {} is not known", type), key);
    }
    // clang-format on
  }

 private:
  std::string read_text(std::string_view key) {
    std::string text = read_gguf_string(reader_, key, kMaxText - text_);
    text_ += text.size();
    return text;
  }

  json read_array(std::string_view key, size_t depth) {
    if (depth >= kMaxArrayDepth) refuse("arrays nested too deep", key);
    const auto type = reader_.read<uint32_t>(key);
    const auto count = reader_.read<uint64_t>(key);
    // Every value takes a byte at least, so a count beyond the rest of the file is a lie.
    if (count > reader_.remaining())
      refuse(fmt::format("{} values run past the end of the file", count), key);
    json array = json::array();
    for (uint64_t i = 0; i < count; ++i) array.push_back(read(type, key, depth + 1));
    return array;
  }

  [[noreturn]] void refuse(std::string_view what, std::string_view key) const {
    fail_input(what, fmt::format("key '{}' of {}", printable(key), reader_.origin()), kDamagedHeader);
  }

  ByteReader& reader_;
  uint64_t values_ = 0, text_ = 0;
};

}  // namespace

std::string read_gguf_string(ByteReader& reader, std::string_view what, uint64_t limit) {
  const auto length = reader.read<uint64_t>(what);
  if (length > limit) {
    fail_input(fmt::format("{} of {} bytes, more than {}", what, length, limit), reader.origin(),
               kDamagedHeader);
  }
  const std::string_view text = reader.take_text(length, what);
  if (find_invalid_utf8(text) != std::string_view::npos) {
    fail_input(fmt::format("{} '{}' is not UTF-8", what, printable(text, 60)), reader.origin(),
               kDamagedHeader);
  }
  return std::string(text);
}

json read_gguf_metadata(ByteReader& reader, uint64_t count) {
  ValueReader values(reader);
  json metadata = json::object();
  for (uint64_t i = 0; i < count; ++i) {
    std::string key = read_gguf_string(reader, "a metadata key");
    const auto type = reader.read<uint32_t>("a metadata type");
    if (metadata.contains(key)) {
      fail_input(fmt::format("the key '{}' stands twice", printable(key)), reader.origin(), kDamagedHeader);
    }
    json value = values.read(type, key);
    metadata.emplace(std::move(key), std::move(value));
  }
  return metadata;
}

}  // namespace openwork
