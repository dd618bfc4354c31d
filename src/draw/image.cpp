#include "draw/image.h"

#include <zlib.h>

#include <algorithm>
#include <span>

#include "base/error.h"

namespace openwork::draw {
namespace {

void append_number(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift & 255));
}

// A PNG chunk: length, type, data, check sum over type and data.
void append_chunk(std::string& out, const char* type, const std::string& data) {
  append_number(out, static_cast<uint32_t>(data.size()));
  const std::string body = type + data;
  out += body;
  append_number(out, static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                                 static_cast<uInt>(body.size()))));
}

std::string compress_bytes(const std::string& raw) {
  uLongf size = compressBound(static_cast<uLong>(raw.size()));
  std::string out(size, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                               reinterpret_cast<const Bytef*>(raw.data()), static_cast<uLong>(raw.size()), 9);
  if (status != Z_OK) fail("a picture could not be compressed", "zlib", "free some memory");
  out.resize(size);
  return out;
}

}  // namespace

std::string encode_png(const PaletteImage& image) {
  std::string header, colours, rows, out("\x89PNG\r\n\x1a\n", 8);
  append_number(header, static_cast<uint32_t>(image.width));
  append_number(header, static_cast<uint32_t>(image.height));
  header += std::string("\x08\x03\x00\x00\x00", 5);
  // Colours beyond the last one used stay away: a kilobyte in each of a figure's thousand faint heads.
  const uint8_t last = image.pixels.empty() ? 0 : *std::max_element(image.pixels.begin(), image.pixels.end());
  for (const PaletteEntry& entry : std::span(*image.palette).first(size_t{last} + 1)) {
    for (const uint8_t part : {entry.red, entry.green, entry.blue})
      colours.push_back(static_cast<char>(part));
  }
  const auto width = static_cast<size_t>(image.width), height = static_cast<size_t>(image.height);
  rows.reserve((width + 1) * height);
  for (size_t y = 0; y < height; ++y) {
    rows.push_back(0);  // no filter: neighbouring palette indices say little about each other
    rows.append(reinterpret_cast<const char*>(image.pixels.data()) + y * width, width);
  }
  append_chunk(out, "IHDR", header);
  append_chunk(out, "PLTE", colours);
  append_chunk(out, "IDAT", compress_bytes(rows));
  append_chunk(out, "IEND", "");
  return out;
}

}  // namespace openwork::draw
