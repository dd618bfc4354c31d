// What the fused backward pass must find of each query row when it starts, for Hopper: zeros where dq will be
// summed, and the row's state with
//   score          D_i = dy_i . y_i
//   logprob, idle  D_i + w_i G_i, G_i = r (dy_i . slope_row_i + dpenalty / N slope_sum_i) from what forward
//                  left (launch.h, RowSlopes); dbias and didle are sums of these
#include "ops/cuda/after.cuh"
#include "ops/cuda/backward.cuh"
#include "ops/cuda/sizes.cuh"

namespace openwork::cuda {
namespace {

constexpr int kThreads = 256, kLanes = 8;  // of a block; that share a row

// Eight neighbouring numbers of one row times those of another.
template <class Element>
__device__ __forceinline__ float multiply_eights(const uint4& left, const uint4& right) {
  const Element* x = reinterpret_cast<const Element*>(&left);
  const Element* y = reinterpret_cast<const Element*>(&right);
  float sum = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) sum = fmaf(static_cast<float>(x[e]), static_cast<float>(y[e]), sum);
  return sum;
}
// Of the eight lanes that share a row, in all of them.
__device__ __forceinline__ float sum_over_eight(float x) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kWholeWarp, x, offset);
  return x;
}
template <class Element>
__device__ __forceinline__ const Element* row_of(const Rows& rows, int b, int h, int i) {
  return head_of<Element>(rows, b, h) + i * rows.row;
}

// D_i, and dy_i . slope_row_i.
struct RowProducts {
  float out = 0, slopes = 0;
};
// This lane's share of row i's.
template <class Element, int D, bool kSlopeRows>
__device__ __forceinline__ RowProducts multiply_row(const Backward& a, int b, int h, int i, int part) {
  const Element* dy = row_of<Element>(a.grad_out, b, h, i);
  const Element* y = row_of<Element>(a.out, b, h, i);
  const Element* slopes = kSlopeRows ? row_of<Element>(a.slopes.rows, b, h, i) : nullptr;
  RowProducts products;
#pragma unroll
  for (int chunk = part; chunk < D / 8; chunk += kLanes) {
    const uint4 left = *reinterpret_cast<const uint4*>(dy + chunk * 8);
    products.out += multiply_eights<Element>(left, *reinterpret_cast<const uint4*>(y + chunk * 8));
    if constexpr (kSlopeRows) {
      products.slopes += multiply_eights<Element>(left, *reinterpret_cast<const uint4*>(slopes + chunk * 8));
    }
  }
  return products;
}

// A warp takes the sixteen rows of a part, four at a time; of logprob and idle it leaves the part's dbias and didle.
template <class Element, int D, bool kSlopeRows>
__global__ void __launch_bounds__(kThreads) row_kernel(const __grid_constant__ Backward a) {
  start_next_kernel();
  const Problem& p = a.problem;
  const int parts = count_parts(p.T), lane = threadIdx.x & 31;
  const int64_t part = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const int head = static_cast<int>(part / parts), first_row = static_cast<int>(part % parts) * kPartRows;
  if (head >= p.B * p.H) return;  // a whole warp
  const int b = head / p.H, h = head % p.H;
  const float weight = penalty_weight(a, b, h);
  float bias = 0, idle = 0;
  float4* sums = reinterpret_cast<float4*>(a.query_sums + part * (kPartRows * D));
#pragma unroll
  for (int n = 0; n < D / 8; ++n) sums[n * 32 + lane] = float4{0, 0, 0, 0};
#pragma unroll
  for (int step = 0; step < kPartRows; step += 32 / kLanes) {
    const int row = first_row + step + lane / kLanes;
    const int i = min(row, p.T - 1);  // a row past the end takes the last one's place, and writes the same
    const int64_t place = static_cast<int64_t>(head) * p.T + i;
    const RowProducts products = multiply_row<Element, D, kSlopeRows>(a, b, h, i, lane % kLanes);
    RowState state;
    state.row_term = sum_over_eight(products.out);
    state.log_sum_exp2 = a.log_sum_exp[place] * kLog2E;
    state.offset2 = row_offset2(p, h, state.log_sum_exp2);
    state.odds = exp2_fast(state.offset2);
    if (a.slopes.sums) {
      const float slopes = kSlopeRows ? sum_over_eight(products.slopes) : 0.f;
      const float G = p.sharpness * fmaf(weight, a.slopes.sums[place], slopes);
      const GateSumWeights weights = gate_sum_weights(p, h, state.log_sum_exp2);
      state.row_term += weights.row * G;
      if (row < p.T && lane % kLanes == 0) bias += G, idle -= weights.idle * G;
    }
    if (lane % kLanes == 0) a.states[place] = state;
  }
  if (!a.slopes.sums) return;
  bias = sum_over_warp(bias);
  if (lane == 0) a.bias_parts[part] = bias;
  if (!a.idle_parts) return;
  idle = sum_over_warp(idle);
  if (lane == 0) a.idle_parts[part] = idle;
}

template <class Element, int D>
cudaError_t launch_size(const Backward& a, cudaStream_t stream) {
  const Problem& p = a.problem;
  const int64_t warps = static_cast<int64_t>(p.B) * p.H * count_parts(p.T);
  const unsigned blocks = static_cast<unsigned>((warps * 32 + kThreads - 1) / kThreads);
  if (a.slopes.rows.data) {
    row_kernel<Element, D, true><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    row_kernel<Element, D, false><<<blocks, kThreads, 0, stream>>>(a);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_row_states(const Backward& a, cudaStream_t stream) {
  OPENWORK_FOR_GROUP_SIZE(launch_size, a, stream)
}

}  // namespace openwork::cuda
