// What each part of a model is worth to a task: the metric of the clean run minus the metric with that part
// alone replaced.
//   AblationRecord record = measure_effects(model, task, {.of = Part::Kind::kMlp}, sweep);
#pragma once
#include <vector>

#include "analyze/circuits/ablation.h"
#include "analyze/circuits/sweep.h"

namespace openwork {

struct AblationSettings {
  AblationKind ablation = AblationKind::kMean;
  Part::Kind of = Part::Kind::kHead;  // all heads, all their queries, ..., all MLPs
  std::vector<Part> only = {};        // or these alone
  uint64_t seed = 0;                  // of the intervals
};

struct PartEffect {
  Part part;
  double effect = 0;  // mean over prompts
  Interval interval;  // 95 %, prompts resampled
};

struct AblationRecord {
  AblationSettings settings;
  int64_t layers = 0;
  double clean = 0, corrupt = 0;    // the metric, mean over prompts
  std::vector<PartEffect> effects;  // in the order of settings.only, or layer by layer
};

// What the sweep knows already is taken from it; its ranks share the passes.
AblationRecord measure_effects(const Transformer& model, const Task& task, const AblationSettings& settings,
                               Sweep& sweep);

}  // namespace openwork
