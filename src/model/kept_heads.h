// Heads of a pruned model. Its config.json has "kept_heads": [[original heads] per layer] and "original_heads": N;
// its tensors hold those heads alone, one after the other. Key/value head m is there while a kept query head of its
// group is; a kept query head reads key/value head floor(original / group size). Two exceptions keep what is
// computed the same: OLMo-2's norms are over all of q and all of k, so those two are stored whole and heads are
// taken after the norm; a layer without heads has no attention tensors but the bias of its output.
// Everybody else sees the original shape (Transformer::layer, activations, gate totals), removed heads 0.
#pragma once
#include "model/architecture.h"
#include "model/head_lists.h"
#include "model/transformer.h"

namespace openwork {

// What bias a removed head has where the original shape is shown: no gate of any kind opens under it.
inline constexpr double kClosedGateBias = -1e4;

// The parameters of `from` as `to`, the same model with other heads kept: heads that only `to` has are zeros, their
// gates closed.
NamedTensors move_heads(const ModelConfig& from, const NamedTensors& parameters, const ModelConfig& to);

// A pruned layer's heads as tensors: as it is stored, and in the original shape.
PrunedHeads index_heads(const ModelConfig& config, int64_t layer, const at::Device& device);
Tensor mark_heads(const ModelConfig& config, int64_t layer, const at::Device& device);  // [H]: 1 kept, 0 gone

}  // namespace openwork
