// Names like the one that was asked for, for messages that say "did you mean".
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace openwork {

enum class Nearness {
  kAny,     // the nearest, however far
  kLikely,  // at most a third of the known name's letters differ (two of a short one's)
};

// At most three of `known`, nearest first (letters put in, taken out or changed), then by name. Names of absurd
// length are not compared, nor more than 20,000 of them.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known,
                                    Nearness nearness);

}  // namespace openwork
