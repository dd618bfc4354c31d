// The built page (viewer/dist) as part of the program: every file's bytes, put there by the build.
#pragma once
#include <span>
#include <string_view>

namespace openwork {

struct ViewerAsset {
  std::string_view path;  // below viewer/dist: "index.html", "assets/index.js"
  std::string_view type;  // as HTTP says it
  std::string_view hash;  // sha256 of the bytes
  std::string_view bytes;
};

std::span<const ViewerAsset> viewer_assets();
const ViewerAsset* find_viewer_asset(std::string_view path);  // null: no such file

}  // namespace openwork
