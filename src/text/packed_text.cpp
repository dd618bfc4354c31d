#include "text/packed_text.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "text/byte_source.h"

namespace openwork {
namespace {

// What a file may unpack to: OPENWORK_UNPACK_LIMIT bytes where that is set.
size_t unpack_limit(const std::filesystem::path& file) {
  constexpr size_t kLeast = size_t{8} << 20, kMostTimes = 32;  // JSON packs to about a tenth
  if (const char* const text = std::getenv("OPENWORK_UNPACK_LIMIT")) {
    size_t limit = 0;
    const char* const end = text + std::string_view(text).size();
    const auto [stop, error] = std::from_chars(text, end, limit);
    if (error == std::errc() && stop == end && limit > 0) return limit;
    fail_input(fmt::format("OPENWORK_UNPACK_LIMIT is '{}'", printable(text, 40)), "environment",
               "give a number of bytes");
  }
  std::error_code ignored;
  return std::max<size_t>(kLeast,
                          kMostTimes * static_cast<size_t>(std::filesystem::file_size(file, ignored)));
}

}  // namespace

std::string pack_text(std::string_view text, int level) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), level);
  if (ZSTD_isError(size)) fail(ZSTD_getErrorName(size), "zstd", "report this");
  packed.resize(size);
  return packed;
}

std::string unpack_text(const std::filesystem::path& file) {
  const std::unique_ptr<ByteSource> source = open_byte_source(file);
  const size_t limit = unpack_limit(file);
  std::string text;
  std::vector<char> buffer(size_t{1} << 20);
  while (const size_t count = source->read(buffer.data(), buffer.size())) {
    text.append(buffer.data(), count);
    if (text.size() > limit)
      fail_input(fmt::format("it unpacks to more than {} bytes", limit), file.string(),
                 "do not use this file, or set OPENWORK_UNPACK_LIMIT to the bytes you allow");
  }
  return text;
}

nlohmann::json read_packed_json(const std::filesystem::path& file, size_t bytes_of_list) {
  const std::string text = unpack_text(file);
  const auto opens = [](char letter) { return letter == '[' || letter == '{'; };
  const auto lists = static_cast<size_t>(std::count_if(text.begin(), text.end(), opens));
  if (lists > 1000 + text.size() / bytes_of_list)
    fail_input(fmt::format("{} lists in {} bytes are more than such a file has", lists, text.size()),
               file.string(), "do not use this file");
  return parse_json(text, file.string());
}

}  // namespace openwork
