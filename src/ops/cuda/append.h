// What the kernel of ops/append_tokens.h is given: plain numbers and device pointers, like launch.h.
#pragma once
#include "ops/cuda/launch.h"

namespace openwork::cuda {

// q, k, v by their strides in elements (d contiguous; Rows::row is a token's); q's result is contiguous
// [B, T, H, d]; keys and values start at the first token to be written.
struct Append {
  Element element = Element::kFloat32;
  int B = 0, T = 0, H = 0, key_heads = 0, d = 0;
  int half = 0;                                   // pairs that are turned; 0: none
  const void *cosine = nullptr, *sine = nullptr;  // [T, half]
  Rows q, k, v, out, keys, values;
};
cudaError_t launch_append(const Append& arguments, cudaStream_t stream);

}  // namespace openwork::cuda
