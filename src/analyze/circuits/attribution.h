// Attribution of heads and attention edges: estimates of their effects from one backward pass (or five:
// integrated gradients), in place of a run for each. An effect m(clean) - m(ablated) is estimated as dm/dz .
// (z - replacement).
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "analyze/circuits/ablation.h"

namespace openwork {

// Of every head: [L, H], double. One step takes the gradient on the clean run, 5 steps as EAP-IG does.
Tensor attribute_heads(const Transformer& model, AblationRunner& runner, AblationKind kind, int64_t steps);

// Of every attention edge: per layer [H, T, T] (query, key), double; the term A_ij v_j against its
// replacement.
std::vector<Tensor> attribute_attention_edges(const Transformer& model, AblationRunner& runner,
                                              AblationKind kind, int64_t steps);

}  // namespace openwork
