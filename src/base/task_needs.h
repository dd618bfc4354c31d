// What a task said about a model's heads: their order by what each is worth to it, and how many of them it needs. Found
// by circuits, shown by figures of heads.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/head_place.h"

namespace openwork {

struct TaskNeeds {
  std::string task = {};
  double threshold = 0.9;                       // share of the task that the needed heads keep
  std::vector<HeadPlace> order = {};            // all heads, most important first
  std::map<HeadPlace, double> importance = {};  // effect of each
  size_t needed = 0;                            // the first so many reach the threshold
  double faithfulness = 0;                      // of those

  bool needs(const HeadPlace& place) const;
};

}  // namespace openwork
