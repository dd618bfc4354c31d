// What every source and every head does to the first target's logit, with patterns, norm scales and active features
// held as the prompt has them:
//   direct  by ways through residual stream and attention alone: a link of the graph
//   total   by all ways, those through other features (or MLPs, their slopes held) with them: all paths of the graph
//           before pruning, signed. One backward pass finds it for all of them.
#pragma once
#include <ATen/core/Tensor.h>

namespace openwork {

struct TraceState;

struct AnswerEffects {
  at::Tensor sources;  // [columns], on the CPU; of biases only what attention's and decoders' constants do
  at::Tensor heads;    // [layers, heads], on the CPU: of all that a head's z writes
};

enum class EffectPaths { kDirect, kTotal };
AnswerEffects find_answer_effects(const TraceState& state, EffectPaths paths);

}  // namespace openwork
