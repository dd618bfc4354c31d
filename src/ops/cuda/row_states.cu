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

// A lane's share of one row, read before anything is made of it: reads of several rows are under way together.
template <class Element, int D, bool kSlopeRows>
struct RowShare {
  static constexpr int kChunks = D / 8 / kLanes;
  uint4 dy[kChunks], y[kChunks], slopes[kSlopeRows ? kChunks : 1];
  float log_sum_exp, slope_sum = 0;

  __device__ __forceinline__ void read(const Backward& a, int b, int h, int i, int64_t place, int lane) {
    const Element* from_dy = row_of<Element>(a.grad_out, b, h, i);
    const Element* from_y = row_of<Element>(a.out, b, h, i);
    const Element* from_slopes = kSlopeRows ? row_of<Element>(a.slopes.rows, b, h, i) : nullptr;
#pragma unroll
    for (int n = 0; n < kChunks; ++n) {
      const int column = (n * kLanes + lane) * 8;
      dy[n] = *reinterpret_cast<const uint4*>(from_dy + column);
      y[n] = *reinterpret_cast<const uint4*>(from_y + column);
      if constexpr (kSlopeRows) slopes[n] = *reinterpret_cast<const uint4*>(from_slopes + column);
    }
    log_sum_exp = a.log_sum_exp[place];
    if (a.slopes.sums) slope_sum = a.slopes.sums[place];
  }

  // D_i, and dy_i . slope_row_i, in all of the row's lanes.
  __device__ __forceinline__ float out_product() const {
    return multiply(y);
  }
  __device__ __forceinline__ float slope_product() const {
    if constexpr (kSlopeRows) return multiply(slopes);
    return 0;
  }

 private:
  __device__ __forceinline__ float multiply(const uint4 (&other)[kChunks]) const {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kChunks; ++n) sum += multiply_eights<Element>(dy[n], other[n]);
    return sum_over_eight(sum);
  }
};

// A warp takes the sixteen rows of a part, four at a time; of logprob and idle it leaves the part's dbias and didle.
template <class Element, int D, bool kSlopeRows>
__global__ void __launch_bounds__(kThreads) row_kernel(const __grid_constant__ Backward a) {
  start_next_kernel();
  constexpr int kRows = 32 / kLanes, kAhead = 256 / D;  // read together: kAhead times kRows
  const Problem& p = a.problem;
  const int parts = count_parts(p.T), lane = threadIdx.x & 31, own_row = lane / kLanes;
  const int64_t part = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const int head = static_cast<int>(part / parts), first_row = static_cast<int>(part % parts) * kPartRows;
  if (head >= p.B * p.H) return;  // a whole warp
  const int b = head / p.H, h = head % p.H;
  const float weight = penalty_weight(a, b, h);
  float bias = 0, idle = 0;
  // A row past the end takes the last one's place, and writes the same.
  const auto row_at = [&](int step) { return min(first_row + step * kRows + own_row, p.T - 1); };
  const auto place_of = [&](int i) { return static_cast<int64_t>(head) * p.T + i; };
#pragma unroll
  for (int from = 0; from < kPartRows / kRows; from += kAhead) {
    RowShare<Element, D, kSlopeRows> shares[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int i = row_at(from + n);
      shares[n].read(a, b, h, i, place_of(i), lane % kLanes);
    }
    if (from == 0) {
      float4* sums = reinterpret_cast<float4*>(a.query_sums + part * (kPartRows * D));
#pragma unroll
      for (int n = 0; n < D / 8; ++n) sums[n * 32 + lane] = float4{0, 0, 0, 0};
    }
    RowState states[kAhead];  // all made before any is stored, behind which nothing would be read ahead
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      RowState& state = states[n];
      state.row_term = shares[n].out_product();
      state.log_sum_exp2 = shares[n].log_sum_exp * kLog2E;
      state.offset2 = row_offset2(p, h, state.log_sum_exp2);
      state.odds = exp2_fast(state.offset2);
      if (a.slopes.sums) {
        const float G = p.sharpness * fmaf(weight, shares[n].slope_sum, shares[n].slope_product());
        const GateSumWeights weights = gate_sum_weights(p, h, state.log_sum_exp2);
        state.row_term += weights.row * G;
        const bool is_own = first_row + (from + n) * kRows + own_row < p.T && lane % kLanes == 0;
        if (is_own) bias += G, idle -= weights.idle * G;
      }
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (lane % kLanes == 0) a.states[place_of(row_at(from + n))] = states[n];
    }
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
