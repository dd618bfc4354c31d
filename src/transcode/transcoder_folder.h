// A saved folder of transcoders held against its model: what it is worth on held-out blocks, and its features
// described.
#pragma once
#include <filesystem>
#include <string>

#include "transcode/measure_transcoders.h"

namespace openwork {

struct FolderSettings {
  std::string model_hash;  // the folder must be of this model
  int64_t contexts =
      0;  // kept of every feature, in the folder's features.json.zst; 0: the folder stays as it is
  std::filesystem::path details;  // then also a file per feature, there; empty: none
  int64_t curve_blocks = 0;       // that replacement curves are measured on; 0: none
  uint64_t seed = 0;              // draws the interval's documents
};

// With progress bars. Ranks share the blocks; the first describes.
TranscoderQuality measure_folder(const std::filesystem::path& folder, const Transformer& model,
                                 const TokenBlocks& blocks, const Tokenizer& tokenizer, Ranks& ranks,
                                 const FolderSettings& settings);

}  // namespace openwork
