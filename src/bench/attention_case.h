// A case of gated attention described once and run as correctness, gradient and speed: sizes, dtype, gate and
// noise, with inputs that follow from the sizes. Tests and `openwork bench attention` share these.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "ops/gated_attention.h"

namespace openwork {

struct AttentionCase {
  int64_t B = 1, H = 1, Hkv = 1, T = 1, d = 64;
  at::ScalarType dtype = at::kFloat;
  std::string gate = std::string(kGateScore);
  std::optional<int64_t> seed = std::nullopt;  // none: hard gates
  int64_t first = 0;
  bool transposed = false;  // q, k, v as [B, T, H, d] with two dimensions swapped, as models make them
  double bias = 0;          // centre of the gate biases; they spread by 1 around it
  double idle = 0;          // likewise of the idle scores, where the gate is idle
  double sharpness = 1;
};

// As in "B2 H4/2 T130 d64 bfloat16 logprob sampled", for test and table lines.
std::string describe(const AttentionCase& attention_case);

struct AttentionInputs {
  at::Tensor q;             // [B, H, T, d]
  at::Tensor k, v;          // [B, Hkv, T, d]
  at::Tensor bias;          // [H]
  at::Tensor grad_out;      // [B, H, T, d]
  at::Tensor grad_penalty;  // [B, H]
  at::Tensor idle = {};     // [H]; undefined unless the gate is idle

  // The same numbers on another device or in another dtype.
  AttentionInputs to(at::Device device) const;
  AttentionInputs to(at::ScalarType dtype) const;
};

// Normal numbers, drawn on the CPU in float64 and rounded to the case's dtype: the same for every device.
AttentionInputs make_inputs(const AttentionCase& attention_case);

struct AttentionGradients {
  GatedAttentionResult result;
  at::Tensor q, k, v, bias;
  at::Tensor idle = {};  // undefined unless the gate is idle
};

// The operator as its callers use it, or the reference, forward and (through autograd) backward.
AttentionGradients run_operator(const AttentionCase& attention_case, const AttentionInputs& inputs);
AttentionGradients run_reference(const AttentionCase& attention_case, const AttentionInputs& inputs);

}  // namespace openwork
