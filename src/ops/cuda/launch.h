// What the GPU kernels are given and how they are started: plain numbers and device pointers, so that
// neither side needs the other's headers (torch stays out of .cu files).
//   [B, H, T] arrays of numbers are contiguous; Rows are [B, heads, T, d] with d contiguous.
// Every launcher enqueues on `stream` and returns the launch's error.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/philox.h"
#include "ops/cuda/limits.h"

namespace openwork::cuda {

enum class Element { kFloat32, kFloat16, kBFloat16 };

// [batch, head, row, d]: where it starts, and its strides in elements.
struct Rows {
  void* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;
};

// A CUtensorMap: how the copy engine finds 64 x 64 boxes of Rows (tensor_map.h).
struct alignas(64) TensorMap {
  uint64_t words[16];
};

struct Problem {
  int B = 0, H = 0, key_heads = 0, T = 0, d = 0;
  Element element = Element::kFloat32;
  bool of_row = false;   // gates know their row's log-sum-exp: 'logprob' and 'idle', else 'score'
  bool sampled = false;  // gates drawn from the seed, else hard
  uint64_t seed = 0;
  uint32_t round_keys[2 * kGateRounds] = {};  // of Philox's rounds, two each; see spread_seed
  // gate.cuh's kSteep 2^23 as bits: kernels that had it as a constant would move it to a register for every edge.
  uint32_t steep_bits = 0x69000000u;
  int64_t first = 0;            // index of batch element 0 in the step's global batch
  float scale = 1;              // c
  float sharpness = 1;          // r: 1, 2 or 4
  const float* bias = nullptr;  // [H]
  const float* idle = nullptr;  // [H], where the gate is 'idle'
  Rows q, k, v;
  int heads_at_once = 1, key_heads_at_once = 1;  // take_turn's, of all samples' heads
};

// The keys of Philox's rounds, made once here: kernels read them as constants instead of adding them up.
inline void spread_seed(Problem& problem) {
  uint32_t low = static_cast<uint32_t>(problem.seed), high = static_cast<uint32_t>(problem.seed >> 32);
  for (int round = 0; round < kGateRounds; ++round, low += 0x9E3779B9u, high += 0xBB67AE85u) {
    problem.round_keys[2 * round] = low;
    problem.round_keys[2 * round + 1] = high;
  }
}

// Every sixteen query rows (a warp's share) leave one partial sum of penalty, active, dbias and didle; these
// are added in a fixed order afterwards, so results do not depend on which block ends first.
inline constexpr int kPartRows = 16;
OPENWORK_HOST_DEVICE int count_parts(int T) {
  return (T + kPartRows - 1) / kPartRows;
}

struct Forward {
  Problem problem;
  Rows out;
  float* log_sum_exp = nullptr;    // [B, H, T]
  float* penalty_parts = nullptr;  // [B, H, parts]
  int* active_parts = nullptr;     // [B, H, parts]
  float* penalty = nullptr;        // [B, H]
  int64_t* active = nullptr;       // [B, H]
  // [B, H] how many blocks of the walk have left their parts, where that walk follows row_sums.cu, which clears it: the
  // last one adds them up.
  int* blocks_done = nullptr;
  // What the fused backward pass asks of logprob and idle, where it will run; else null. See RowSlopes.
  Rows slope_rows;              // [B, H, T, d], of sampled gates
  float* slope_sums = nullptr;  // [B, H, T]
};

// A row's G_i = sum_j dg_ij is known before any walk of backward, as D_i is: what gates do to it in forward is
// linear in dy_i and dpenalty. With s and sigmoid' of the edge at the sharpness r,
//   G_i = r (dy_i . slope_row_i + dpenalty / N slope_sum_i)
//   slope_row_i = sum_j P_ij s_ij (1 - s_ij) v_j  (none where gates are hard)    slope_sum_i = sum_j sigmoid'_ij
struct RowSlopes {
  Rows rows;                    // as forward left them
  const float* sums = nullptr;  // null: none were left
};

// What backward keeps of a query row between its two passes; log2 units where a name ends in 2.
//   E_ij = exp(g_ij) = P_ij * odds, with odds = exp(offset): b + L (score), b (logprob), b + log sigmoid(L -
//   a) (idle), L the row's log-sum-exp
struct alignas(16) RowState {
  float log_sum_exp2;
  float row_term;  // D_i, or D_i + w_i G_i (logprob, idle): what P_ij is multiplied with and subtracted
  float odds;
  float offset2;
};

struct Backward {
  Problem problem;
  Rows out, grad_out;
  const float* log_sum_exp = nullptr;   // [B, H, T]
  const float* grad_penalty = nullptr;  // [B, H]
  RowState* states = nullptr;           // [B, H, T]
  float* bias_parts = nullptr;          // [B, H, parts]
  float* idle_parts = nullptr;          // [B, H, parts], where the gate is 'idle'
  // dq as the fused pass sums it, [B, H, parts, d / 8, 32, 4]: of each part's sixteen rows what the lanes of a warp
  // hold of a 16 x 8 product, so that a warp's additions are to neighbouring places (tile.cuh has the layout).
  float* query_sums = nullptr;
  Rows grad_q, grad_k, grad_v;
  float* grad_bias = nullptr;         // [H]
  float* grad_idle = nullptr;         // [H], where the gate is 'idle'
  RowSlopes slopes;                   // of the fused pass alone, for logprob and idle
  TensorMap q_map = {}, dy_map = {};  // of problem.q and grad_out, of the fused pass alone
  // [T, d / 2] of rotary positions that q and k were turned by, where grad_q and grad_k are to be of what was turned; else
  // null. Of the fused pass alone.
  const void *cosine = nullptr, *sine = nullptr;
};

// The fast kernels exist for these head sizes and two-byte elements, and need a positive scale.
inline constexpr int kFastSizes[] = {32, 64, 80, 96, 128, 256};
// Shared memory that a block of the fast kernels needs at most; a device with less takes the plain ones.
int fast_shared_bytes(int d);

cudaError_t launch_fast_forward(const Forward& arguments, cudaStream_t stream);
// The same on Hopper, for head sizes 64 and 128.
cudaError_t launch_hopper_forward(const Forward& arguments, cudaStream_t stream);
// The first part of it where gates know their row: log_sum_exp.
cudaError_t launch_row_sums(const Forward& arguments, cudaStream_t stream);
// Backward in its two passes: by queries (dq, the states, the parts of dbias and didle), then by keys (dk,
// dv).
cudaError_t launch_fast_queries(const Backward& arguments, cudaStream_t stream);
cudaError_t launch_fast_keys(const Backward& arguments, cudaStream_t stream);
// Backward in one pass, on Hopper, for head sizes 64 and 128; dq's sums have no fixed order. logprob and idle
// need the slopes that launch_hopper_forward left.
cudaError_t launch_fused_backward(const Backward& arguments, cudaStream_t stream);
// The first part of it: zeros for dq's sums, the states, and the parts of dbias (logprob, idle) and didle.
cudaError_t launch_row_states(const Backward& arguments, cudaStream_t stream);

// Any head size up to kLargestSize, any element, any scale; float32 arithmetic throughout.
cudaError_t launch_plain_forward(const Forward& arguments, cudaStream_t stream);
cudaError_t launch_plain_queries(const Backward& arguments, cudaStream_t stream);
cudaError_t launch_plain_keys(const Backward& arguments, cudaStream_t stream);

// The last step of both, but for Hopper's forward and fused backward passes, which have it in them: adds the parts up.
cudaError_t launch_sum_forward_parts(const Forward& arguments, cudaStream_t stream);
cudaError_t launch_sum_gate_parts(const Backward& arguments, cudaStream_t stream);

}  // namespace openwork::cuda
