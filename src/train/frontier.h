// The frontier between loss and edges: N runs, each starting from the model of the one before and sparser,
// with targets evenly from the control's held-out loss + 0.03 to the base's. The length of the run is shared
// equally. OUT/point-1 ... point-N are models with their metrics and result.json; OUT holds a copy of the
// last.
#pragma once
#include <vector>

#include "train/run_once.h"

namespace openwork {

// One point: the base's loss. Where the base is not 0.03 above the first target, the last is 0.03 * N above
// the control instead, so that there is a way to go.
std::vector<double> frontier_targets(double control, double base, int64_t points);

// Fills in report.frontier and report.result; a signal in the result is of a point that was interrupted.
void run_frontier(const SharedRun& run, const Transformer& base, const LoopOptions& loop, RunReport& report);

}  // namespace openwork
