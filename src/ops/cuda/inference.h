// What the kernels of gated_inference are given: plain numbers and device pointers, like launch.h.
#pragma once
#include "ops/cuda/launch.h"

namespace openwork::cuda {

// z of T queries at the end of K keys, gates hard. Rows are 16-byte aligned and d is a multiple of 8 (padded with
// zeros where it was not).
struct Inference {
  int B = 0, H = 0, key_heads = 0, T = 0, K = 0, d = 0;
  Element element = Element::kFloat32;
  bool gated = false;       // off: every causal edge is open
  bool of_row = false;      // gates know their row's log-sum-exp: 'logprob' and 'idle', else 'score'
  bool float_gates = true;  // bias and idle are float32, else of q's element
  float scale = 1;
  const void* bias = nullptr;             // [H], where there is a gate
  const void* idle = nullptr;             // [H], where the gate is 'idle'
  const int64_t* key_of_query = nullptr;  // [H]; null: h / (H / key_heads)
  Rows q, k, v, out;
  int heads_at_once = 1;  // take_turn's, of launch_tiled_inference
  // Between the two kernels of a long cache.
  float* scores = nullptr;         // [B, H, T, K], in units of log 2
  float* chunk_largest = nullptr;  // [B, H, T, chunks]
  float* chunk_sums = nullptr;     // [B, H, T, chunks] of exp2(score - the chunk's largest)
};

// From this many queries on, a block takes so many of them together.
inline constexpr int kQueryBlock = 8;
inline constexpr int kChunkKeys = 512;
OPENWORK_HOST_DEVICE int count_chunks(int K) {
  return (K + kChunkKeys - 1) / kChunkKeys;
}

// Hopper alone: two-byte elements, d 64 or 128, a positive scale; any B, T and K.
cudaError_t launch_tiled_inference(const Inference& arguments, cudaStream_t stream);
// K up to kShortCache.
cudaError_t launch_short_inference(const Inference& arguments, cudaStream_t stream);
// Any K, two kernels; wants room for scores, chunk_largest and chunk_sums.
cudaError_t launch_long_inference(const Inference& arguments, cudaStream_t stream);

}  // namespace openwork::cuda
