// Activation checkpointing (Chen et al. 2016): of each layer only its input is kept; the backward pass runs
// the layer again. Memory then grows with one layer's insides instead of all of them, for about a third more
// work. Gates are drawn from counters (docs/method.md, 1), so the second run draws the same ones, and
// gradients are the same to the bit on a device whose kernels are.
#pragma once
#include "model/transformer.h"

namespace openwork {

// From now on the model's layers are recomputed in passes that keep a graph. The model's parameters may
// change in place between passes.
void recompute_layers(Transformer& model);

}  // namespace openwork
