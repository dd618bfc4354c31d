// A prompt run again with some of what tracing holds held as the prompt had it, and the rest free to follow a change. From
// the top down, more and more follows, until it is the model itself:
//   Held{}                                    all paths of the graph, forward: linear in the change
//   [Following::kFinalNorm] = false           the norm before the unembedding is what it is; all else as the graph has it
//   [...] = false, one after the other        the replaced model with its errors held; without transcoders, the model
//   .replaced = false                         MLPs are the model's own
#pragma once
#include <array>

#include "analyze/trace/trace_state.h"

namespace openwork {

struct Held {
  // By Following: the scales of the final norm and of all others; which features are active (or the slopes of MLPs) and
  // which values are clipped; attention's patterns, gates with them.
  std::array<bool, kFollowings.size()> steps = {true, true, true, true};
  bool replaced = true;  // features in place of MLPs; what they miss stays as it was
  bool nodes = false;    // what features and MLPs write, but for skips: direct effects alone are left

  bool operator[](Following step) const { return steps[static_cast<size_t>(step)]; }
  bool& operator[](Following step) { return steps[static_cast<size_t>(step)]; }
};

// Taps of a pass over state.run.ids, any number of runs in the batch. The state must outlive them.
void hold(const TraceState& state, const Held& held, Taps& taps);

}  // namespace openwork
