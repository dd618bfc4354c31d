#include "assets/viewer_assets.h"

namespace openwork {

const ViewerAsset* find_viewer_asset(std::string_view path) {
  for (const ViewerAsset& asset : viewer_assets()) {
    if (asset.path == path) return &asset;
  }
  return nullptr;
}

}  // namespace openwork
