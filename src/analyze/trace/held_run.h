// A prompt run again with some of what tracing holds held as the prompt had it, and the rest free to follow a change. From
// the top down, more and more follows, until it is the model itself:
//   Held{}                                    all paths of the graph, forward: linear in the change
//   .final_norm = false                       the norm before the unembedding is what it is; all else as the graph has it
//   .norms = false, .active = false, ...      the replaced model with its errors held; without transcoders, the model
//   .replaced = false                         MLPs are the model's own
#pragma once
#include "analyze/trace/trace_state.h"

namespace openwork {

struct Held {
  bool final_norm = true;  // its scale
  bool norms = true;       // the scales of all other norms
  bool active = true;      // which features are active (or the slopes of MLPs), which values are clipped
  bool patterns = true;    // of attention, gates with them
  bool replaced = true;    // features in place of MLPs; what they miss stays as it was
  bool nodes = false;      // what features and MLPs write, but for skips: direct effects alone are left
};

// Taps of a pass over state.run.ids, any number of runs in the batch. The state must outlive them.
void hold(const TraceState& state, const Held& held, Taps& taps);

}  // namespace openwork
