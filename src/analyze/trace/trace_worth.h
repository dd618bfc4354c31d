// What a graph with transcoders is worth (TraceWorth): how much of the answer it leaves to errors, and what
// the model makes of the prompt with the transcoders in its MLPs' place.
#pragma once
#include <vector>

#include "analyze/trace/influence.h"
#include "analyze/trace/trace_state.h"

namespace openwork {

// The two scores and the errors' share, of effects before pruning; kinds [N] are the columns'. With A the
// absolute effects, each row divided by its sum, and influence found in it (influence.h):
//   replacement  = tokens' influence / (tokens' + errors')
//   completeness = sum over nodes of (1 - errors' part of the node's row) x (its influence, and a logit's
//   weight),
//                  divided by the sum of those weights; nodes without a row (tokens, errors) count as
//                  explained
TraceWorth score_effects(const EffectRows& effects, const std::vector<TraceNodeKind>& kinds);

// Fills in the losses and the first target's probability with all MLPs replaced. The state has transcoders.
void measure_replaced(const TraceState& state, TraceWorth& worth);

}  // namespace openwork
