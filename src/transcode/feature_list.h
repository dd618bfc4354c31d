// Finding features among the described ones (descriptions.h): by layer, by a text that they read or write, near-
// duplicates put together.
//   reads    mean over a feature's contexts of the largest activation on the text, over the context's peak: 1 where
//            it peaks on the text everywhere. The text may be part of a token or several of them, in any case
//   writes   1 / rank of the first token with the text in it among those the decoder raises most; 0 where none has
// Features of one layer that read and write in nearly one direction (cosines of encoders and of decoders both at
// least kAlike) are one group, listed once under the one that is most often active.
#pragma once
#include <string>
#include <vector>

#include "transcode/descriptions.h"

namespace openwork {

inline constexpr double kAlike = 0.7;

struct FeatureQuery {
  std::string search = {};  // empty: every feature, the most often active first
  int64_t layer = -1;       // -1: all
};

struct FoundFeature {
  int64_t layer = 0, feature = 0;
  double reads = 0, writes = 0;  // 0 without a search; found features have one of the two
  std::vector<int64_t> alike;    // the rest of its group, in the same layer
};

// groups[layer][feature]: the smallest feature of its group.
using FeatureGroups = std::vector<std::vector<int64_t>>;
FeatureGroups group_features(const Transcoders& transcoders);

// What matches, best first (reads + writes; then how often it is active). Fails where the layer is none.
std::vector<FoundFeature> find_features(const Descriptions& descriptions, const FeatureGroups& groups,
                                        const Tokenizer& tokenizer, const FeatureQuery& query);

}  // namespace openwork
