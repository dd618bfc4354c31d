// Whether what is to be changed (trace --ablate, --boost) is there: asked when the prompt is in tokens and nothing has
// been run. Heads and layers are the model's, positions the prompt's, features the transcoders'; whether a feature is
// active at its token is known after one run of the prompt (Tracer::check_changes), before the graph is made.
#pragma once
#include <vector>

#include "analyze/trace/traced_model.h"

namespace openwork {

// Fails on the first change of a node that the model cannot have in a prompt of so many tokens.
void check_node_changes(const std::vector<NodeChange>& changes, const TracedModel& traced, int64_t tokens);

}  // namespace openwork
