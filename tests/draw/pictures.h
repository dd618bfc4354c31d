// Looking at pictures in tests: PNG bytes as pixels, and how far two pictures are apart when seen from a
// distance (fonts differ between machines, so letters must not count).
#pragma once
#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace openwork::draw {

struct Picture {
  int width = 0, height = 0;
  std::vector<double> red, green, blue;  // [height * width], 0 .. 1

  size_t index(int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x);
  }
};

inline Picture decode_png(const std::string& bytes) {
  struct Source {
    const std::string& bytes;
    size_t at = 0;
  } source{bytes};
  const auto read = [](void* closure, unsigned char* out, unsigned length) {
    auto& from = *static_cast<Source*>(closure);
    if (from.at + length > from.bytes.size()) return CAIRO_STATUS_READ_ERROR;
    std::memcpy(out, from.bytes.data() + from.at, length);
    from.at += length;
    return CAIRO_STATUS_SUCCESS;
  };
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface(
      cairo_image_surface_create_from_png_stream(read, &source), cairo_surface_destroy);
  Picture picture;
  if (cairo_surface_status(surface.get()) != CAIRO_STATUS_SUCCESS) return picture;
  picture.width = cairo_image_surface_get_width(surface.get());
  picture.height = cairo_image_surface_get_height(surface.get());
  const unsigned char* data = cairo_image_surface_get_data(surface.get());
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      uint32_t pixel = 0;
      std::memcpy(&pixel, data + y * cairo_image_surface_get_stride(surface.get()) + x * 4, 4);
      picture.red.push_back((pixel >> 16 & 255) / 255.0);
      picture.green.push_back((pixel >> 8 & 255) / 255.0);
      picture.blue.push_back((pixel & 255) / 255.0);
    }
  }
  return picture;
}

// Means over blocks of the picture, `across` of them in each direction.
inline std::vector<double> shrink(const Picture& picture, const std::vector<double>& channel, int across) {
  std::vector<double> blocks;
  for (int by = 0; by < across; ++by) {
    for (int bx = 0; bx < across; ++bx) {
      const int x0 = bx * picture.width / across, x1 = std::max(x0 + 1, (bx + 1) * picture.width / across);
      const int y0 = by * picture.height / across, y1 = std::max(y0 + 1, (by + 1) * picture.height / across);
      double sum = 0;
      for (int y = y0; y < y1; ++y) {
        for (int x = x0; x < x1; ++x) sum += channel[picture.index(x, y)];
      }
      blocks.push_back(sum / ((x1 - x0) * (y1 - y0)));
    }
  }
  return blocks;
}

// The mean difference of the two pictures' blocks, over all colours: 0 the same, 1 black against white.
inline double distance(const Picture& a, const Picture& b, int across = 24) {
  double sum = 0;
  size_t count = 0;
  for (const auto channel : {&Picture::red, &Picture::green, &Picture::blue}) {
    const std::vector<double> in_a = shrink(a, a.*channel, across), in_b = shrink(b, b.*channel, across);
    for (size_t n = 0; n < in_a.size(); ++n, ++count) sum += std::abs(in_a[n] - in_b[n]);
  }
  return sum / static_cast<double>(count);
}

// Whether every tag of an XML text is closed in order, every attribute quoted, and nothing but space outside.
inline bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  bool seen = false;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at)) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    at = end;
    if (tag.empty() || tag.find('<') != std::string::npos || std::count(tag.begin(), tag.end(), '"') % 2 != 0)
      return false;
    if (tag[0] == '?' || tag[0] == '!') continue;
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" \n/", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      if (open.empty() && seen) return false;  // a second root
      open.push_back(name);
      seen = true;
    }
  }
  return seen && open.empty();
}

}  // namespace openwork::draw
