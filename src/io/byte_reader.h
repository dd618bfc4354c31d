// A cursor over untrusted little-endian bytes: every read is checked against the end, and running past it is
// one error that names the file and what was being read.
#pragma once
#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace openwork {

static_assert(std::endian::native == std::endian::little,
              "numbers are copied from little-endian files as they are");

inline constexpr std::string_view kDamagedAdvice = "the file is cut short or damaged; fetch it again";
inline constexpr std::string_view kDamagedHeader = "the header is damaged or lies; fetch the file again";

// A number at the start of `bytes`, which need not be aligned.
template <typename Number>
Number load_number(const std::byte* bytes) {
  Number value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

class ByteReader {
 public:
  // Neither the bytes nor the name are copied.
  ByteReader(std::span<const std::byte> bytes, std::string_view origin, size_t at = 0)
      : bytes_(bytes), origin_(origin), at_(at) {}

  size_t position() const { return at_; }
  size_t remaining() const { return at_ <= bytes_.size() ? bytes_.size() - at_ : 0; }
  std::string_view origin() const { return origin_; }

  std::span<const std::byte> take(uint64_t size, std::string_view what) {
    if (size > remaining()) {
      fail_input(fmt::format("{} of {} bytes at byte {} runs past the end ({} bytes)", what, size, at_,
                             bytes_.size()),
                 origin_, kDamagedAdvice);
    }
    const auto part = bytes_.subspan(at_, static_cast<size_t>(size));
    at_ += part.size();
    return part;
  }

  std::string_view take_text(uint64_t size, std::string_view what) {
    const auto part = take(size, what);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

  template <typename Number>
  Number read(std::string_view what) {
    return load_number<Number>(take(sizeof(Number), what).data());
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view origin_;
  size_t at_;
};

}  // namespace openwork
