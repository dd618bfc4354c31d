// The plain kernels: docs/method.md, 1 in float32, one warp to two rows, one lane to an edge. They take any
// element, head size and scale, and are what the fast kernels are checked against. Each walks tiles of 32
// rows staged in shared memory as float32:
//   forward   rows are queries, tiles are keys: first the log-sum-exp, then gates and output
//   queries   rows are queries, tiles are keys: first G, then dq
//   keys      rows are keys, tiles are queries: dk and dv
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {
namespace {

constexpr int kWarps = 8, kOwn = 2, kTile = 32;  // a block's rows: kWarps * kOwn == kPartRows
constexpr int kColumns = kLargestSize / 32;      // of a row's d numbers, those of one lane
static_assert(kWarps * kOwn == kPartRows);

__host__ __device__ constexpr int own_pitch(int d) {
  return (d + 3) / 4 * 4;
}
__host__ __device__ constexpr int tile_pitch(int d) {
  return own_pitch(d) + 1;
}  // lanes in different banks

// Rows first .. first+count-1 as float32, zeros from row `end` and from column d on.
template <class Number>
__device__ void stage_rows(float* to, int pitch, const Rows& rows, int b, int h, int first, int count,
                           int end, int d) {
  const Number* from = head_of<Number>(rows, b, h);
  for (int index = threadIdx.x; index < count * own_pitch(d); index += kWarps * 32) {
    const int row = index / own_pitch(d), column = index % own_pitch(d);
    const bool present = first + row < end && column < d;
    to[row * pitch + column] = present ? static_cast<float>(from[(first + row) * rows.row + column]) : 0.f;
  }
}

// own[r] . tile[lane] for a warp's rows r.
__device__ void multiply_rows(float (&sum)[kOwn], const float* own, const float* tile, int d) {
  const int lane = threadIdx.x & 31;
  for (float& s : sum) s = 0;
  for (int e = 0; e < own_pitch(d); ++e) {
    const float x = tile[lane * tile_pitch(d) + e];
#pragma unroll
    for (int r = 0; r < kOwn; ++r) sum[r] = fmaf(own[r * own_pitch(d) + e], x, sum[r]);
  }
}

// total += sum over the tile's rows of (lane i's weight) * tile[i]; a lane has columns lane, lane + 32, ...
__device__ void add_weighted(float (&total)[kColumns], float weight, const float* tile, int d) {
  const int lane = threadIdx.x & 31;
  for (int i = 0; i < kTile; ++i) {
    const float w = __shfl_sync(kWholeWarp, weight, i);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (c * 32 + lane < d) total[c] = fmaf(w, tile[i * tile_pitch(d) + c * 32 + lane], total[c]);
    }
  }
}

template <class Number>
__device__ void store_row(const Rows& rows, int b, int h, int row, const float (&total)[kColumns],
                          float factor, int d) {
  Number* to = head_of<Number>(rows, b, h) + row * rows.row;
  for (int c = 0; c < kColumns; ++c) {
    const int column = c * 32 + (threadIdx.x & 31);
    if (column < d) to[column] = static_cast<Number>(total[c] * factor);
  }
}

// u and 1 - u of an edge, both times 2^16 and exact.
struct PlainUniform {
  float up, down;
};
__device__ PlainUniform draw_uniform(const Problem& p, int b, int h, int i, int j) {
  if (!p.sampled) return {};
  const Philox4 draw = philox<kGateRounds>(p.seed, noise_rows(p, b, h).row(i) + j / kGateKeys);
  const float up = static_cast<float>(gate_bits(draw, j)) + 0.5f;
  return {up, 65536.f - up};
}

// One edge forward. r g is kept below kWideOffset2 (in log 2), where everything has long saturated.
struct PlainEdge {
  float x2, P, E;
  bool open;
};
__device__ PlainEdge gate_edge(const Problem& p, int h, float score2, float log_sum_exp2, float offset2,
                               const PlainUniform& u) {
  PlainEdge edge;
  edge.x2 = score2 - log_sum_exp2;
  edge.P = exp2f(edge.x2);
  edge.E = exp2f(fminf((edge.x2 + offset2) * p.sharpness, kWideOffset2));
  const bool closed = p.of_row && p.bias[h] <= 0;  // outright: P may be rounded above 1
  edge.open = p.sampled ? u.up * edge.E > u.down : edge.x2 > -offset2 && !closed;
  return edge;
}

__device__ EdgeGradient differentiate(const Problem& p, const PlainEdge& edge, const PlainUniform& u,
                                      float dA, float row_term, float weight) {
  const float closing = 1.f / (1.f + edge.E), PdA = edge.P * dA;
  EdgeGradient gradient;
  gradient.gate = weight * edge.E * closing * closing;
  if (p.sampled) {
    const float s = u.up * edge.E / (u.up * edge.E + u.down);
    gradient.gate += PdA * s * (u.down / (u.up * edge.E + u.down));
  }
  gradient.gate *= p.sharpness;
  gradient.gated = edge.open ? edge.P : 0.f;
  gradient.score = (edge.open ? PdA : 0.f) - edge.P * row_term + gradient.gate;
  return gradient;
}

template <class Number>
__global__ void __launch_bounds__(kWarps * 32) forward_kernel(const __grid_constant__ Forward a) {
  extern __shared__ float shared_floats[];
  __shared__ float warp_penalty[kWarps];
  __shared__ int warp_active[kWarps];
  const Problem& p = a.problem;
  const int parts = count_parts(p.T), part = parts - 1 - blockIdx.x % parts, head = blockIdx.x / parts;
  const int b = head / p.H, h = head % p.H, kv_head = h / (p.H / p.key_heads);
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const int first = part * kPartRows, row = first + warp * kOwn, end = min(first + kPartRows, p.T);
  float* q = shared_floats;                      // [kPartRows, d]
  float* tile = q + kPartRows * own_pitch(p.d);  // [kTile, d]
  const float* own_q = q + warp * kOwn * own_pitch(p.d);
  const float c2 = p.scale * kLog2E;
  stage_rows<Number>(q, own_pitch(p.d), p.q, b, h, first, kPartRows, p.T, p.d);

  // 1. Each row's log-sum-exp.
  float largest2[kOwn], sum[kOwn], S[kOwn];
  for (int r = 0; r < kOwn; ++r) largest2[r] = kLowest2, sum[r] = 0;
  for (int key = 0; key < end; key += kTile) {
    __syncthreads();
    stage_rows<Number>(tile, tile_pitch(p.d), p.k, b, kv_head, key, kTile, p.T, p.d);
    __syncthreads();
    multiply_rows(S, own_q, tile, p.d);
    for (int r = 0; r < kOwn; ++r) {
      if (key + lane > row + r) continue;
      const float before = largest2[r];
      largest2[r] = fmaxf(before, S[r] * c2);
      sum[r] = sum[r] * exp2f(before - largest2[r]) + exp2f(S[r] * c2 - largest2[r]);
    }
  }
  float log_sum_exp2[kOwn];
  for (int r = 0; r < kOwn; ++r) {
    float whole = largest2[r];
    for (int offset = 16; offset > 0; offset /= 2) {
      whole = fmaxf(whole, __shfl_xor_sync(kWholeWarp, whole, offset));
    }
    log_sum_exp2[r] = whole + log2f(sum_over_warp(sum[r] * exp2f(largest2[r] - whole)));
  }

  // 2. Gates, output, penalty.
  float y[kOwn][kColumns] = {}, penalty = 0;
  int active = 0;
  for (int key = 0; key < end; key += kTile) {
    float gated[kOwn];
    __syncthreads();
    stage_rows<Number>(tile, tile_pitch(p.d), p.k, b, kv_head, key, kTile, p.T, p.d);
    __syncthreads();
    multiply_rows(S, own_q, tile, p.d);
    for (int r = 0; r < kOwn; ++r) {
      gated[r] = 0;
      const int i = row + r, j = key + lane;
      if (j > i || i >= p.T) continue;
      const PlainEdge edge = gate_edge(p, h, S[r] * c2, log_sum_exp2[r], row_offset2(p, h, log_sum_exp2[r]),
                                       draw_uniform(p, b, h, i, j));
      if (edge.open) gated[r] = edge.P;
      active += edge.open;
      penalty += edge.E / (1.f + edge.E);
    }
    __syncthreads();
    stage_rows<Number>(tile, tile_pitch(p.d), p.v, b, kv_head, key, kTile, p.T, p.d);
    __syncthreads();
    for (int r = 0; r < kOwn; ++r) add_weighted(y[r], gated[r], tile, p.d);
  }

  // 3. Rows and partial sums out.
  for (int r = 0; r < kOwn && row + r < p.T; ++r) {
    store_row<Number>(a.out, b, h, row + r, y[r], 1.f, p.d);
    if (lane == 0) a.log_sum_exp[static_cast<int64_t>(head) * p.T + row + r] = log_sum_exp2[r] * kLn2;
  }
  penalty = sum_over_warp(penalty);
  active = sum_over_warp(active);
  if (lane == 0) warp_penalty[warp] = penalty, warp_active[warp] = active;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kWarps; ++w) penalty += warp_penalty[w], active += warp_active[w];
  a.penalty_parts[static_cast<int64_t>(head) * parts + part] = penalty;
  a.active_parts[static_cast<int64_t>(head) * parts + part] = active;
}

template <class Number>
__global__ void __launch_bounds__(kWarps * 32) query_kernel(const __grid_constant__ Backward a) {
  extern __shared__ float shared_floats[];
  __shared__ float warp_gates[kWarps], warp_idle[kWarps];
  const Problem& p = a.problem;
  const int parts = count_parts(p.T), part = parts - 1 - blockIdx.x % parts, head = blockIdx.x / parts;
  const int b = head / p.H, h = head % p.H, kv_head = h / (p.H / p.key_heads);
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const int first = part * kPartRows, row = first + warp * kOwn, end = min(first + kPartRows, p.T);
  float* q = shared_floats;
  float* dy = q + kPartRows * own_pitch(p.d);
  float* k_tile = dy + kPartRows * own_pitch(p.d);
  float* v_tile = k_tile + kTile * tile_pitch(p.d);
  const float* own_q = q + warp * kOwn * own_pitch(p.d);
  const float* own_dy = dy + warp * kOwn * own_pitch(p.d);
  const float c2 = p.scale * kLog2E;
  const float weight = penalty_weight(a, b, h);
  stage_rows<Number>(q, own_pitch(p.d), p.q, b, h, first, kPartRows, p.T, p.d);
  stage_rows<Number>(dy, own_pitch(p.d), a.grad_out, b, h, first, kPartRows, p.T, p.d);
  __syncthreads();

  // 1. D_i = dy_i . y_i, and what forward left of the row.
  RowState state[kOwn];
  for (int r = 0; r < kOwn; ++r) {
    const int i = row + r;
    float D = 0;
    for (int e = lane; e < p.d && i < p.T; e += 32) {
      D += own_dy[r * own_pitch(p.d) + e] *
           static_cast<float>(head_of<Number>(a.out, b, h)[i * a.out.row + e]);
    }
    state[r].row_term = sum_over_warp(D);
    state[r].log_sum_exp2 = i < p.T ? a.log_sum_exp[static_cast<int64_t>(head) * p.T + i] * kLog2E : 0.f;
    state[r].offset2 = row_offset2(p, h, state[r].log_sum_exp2);
    state[r].odds = exp2f(state[r].offset2);
  }

  // 2. Twice over the keys: G_i first, then dq_i with it.
  float dq[kOwn][kColumns] = {}, G[kOwn] = {};
  for (int walk = 0; walk < 2; ++walk) {
    for (int key = 0; key < end; key += kTile) {
      float S[kOwn], dA[kOwn];
      __syncthreads();
      stage_rows<Number>(k_tile, tile_pitch(p.d), p.k, b, kv_head, key, kTile, p.T, p.d);
      stage_rows<Number>(v_tile, tile_pitch(p.d), p.v, b, kv_head, key, kTile, p.T, p.d);
      __syncthreads();
      multiply_rows(S, own_q, k_tile, p.d);
      multiply_rows(dA, own_dy, v_tile, p.d);
      for (int r = 0; r < kOwn; ++r) {
        const int i = row + r, j = key + lane;
        EdgeGradient gradient{};
        if (j <= i && i < p.T) {
          const PlainUniform u = draw_uniform(p, b, h, i, j);
          const PlainEdge edge = gate_edge(p, h, S[r] * c2, state[r].log_sum_exp2, state[r].offset2, u);
          gradient = differentiate(p, edge, u, dA[r], state[r].row_term, weight);
        }
        if (walk == 0) {
          G[r] += gradient.gate;
        } else {
          add_weighted(dq[r], gradient.score, k_tile, p.d);
        }
      }
    }
    if (walk > 0) break;
    for (int r = 0; r < kOwn; ++r) {
      G[r] = sum_over_warp(G[r]);
      state[r].row_term += gate_sum_weights(p, h, state[r].log_sum_exp2).row * G[r];
    }
  }

  // 3. Rows and partial sums out.
  float gates = 0, idle = 0;
  for (int r = 0; r < kOwn && row + r < p.T; ++r) {
    store_row<Number>(a.grad_q, b, h, row + r, dq[r], p.scale, p.d);
    if (lane == 0) a.states[static_cast<int64_t>(head) * p.T + row + r] = state[r];
    gates += G[r];
    idle -= gate_sum_weights(p, h, state[r].log_sum_exp2).idle * G[r];
  }
  if (lane == 0) warp_gates[warp] = gates, warp_idle[warp] = idle;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kWarps; ++w) gates += warp_gates[w], idle += warp_idle[w];
  a.bias_parts[static_cast<int64_t>(head) * parts + part] = gates;
  if (a.idle_parts) a.idle_parts[static_cast<int64_t>(head) * parts + part] = idle;
}

template <class Number>
__global__ void __launch_bounds__(kWarps * 32) key_kernel(const __grid_constant__ Backward a) {
  extern __shared__ float shared_floats[];
  const Problem& p = a.problem;
  const int parts = count_parts(p.T), part = blockIdx.x % parts, head = blockIdx.x / parts;
  const int b = head / p.key_heads, kv_head = head % p.key_heads, group = p.H / p.key_heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const int first = part * kPartRows, row = first + warp * kOwn;
  float* k = shared_floats;
  float* v = k + kPartRows * own_pitch(p.d);
  float* q_tile = v + kPartRows * own_pitch(p.d);
  float* dy_tile = q_tile + kTile * tile_pitch(p.d);
  const float* own_k = k + warp * kOwn * own_pitch(p.d);
  const float* own_v = v + warp * kOwn * own_pitch(p.d);
  const float c2 = p.scale * kLog2E;
  stage_rows<Number>(k, own_pitch(p.d), p.k, b, kv_head, first, kPartRows, p.T, p.d);
  stage_rows<Number>(v, own_pitch(p.d), p.v, b, kv_head, first, kPartRows, p.T, p.d);

  float dk[kOwn][kColumns] = {}, dv[kOwn][kColumns] = {};
  for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    const int64_t query_head = static_cast<int64_t>(b) * p.H + h;
    const float weight = penalty_weight(a, b, h);
    for (int query = first / kTile * kTile; query < p.T; query += kTile) {
      float S[kOwn], dA[kOwn];
      __syncthreads();
      stage_rows<Number>(q_tile, tile_pitch(p.d), p.q, b, h, query, kTile, p.T, p.d);
      stage_rows<Number>(dy_tile, tile_pitch(p.d), a.grad_out, b, h, query, kTile, p.T, p.d);
      __syncthreads();
      multiply_rows(S, own_k, q_tile, p.d);
      multiply_rows(dA, own_v, dy_tile, p.d);
      const int i = query + lane;
      const RowState state = i < p.T ? a.states[query_head * p.T + i] : RowState{};
      for (int r = 0; r < kOwn; ++r) {
        const int j = row + r;
        EdgeGradient gradient{};
        if (j <= i && i < p.T) {
          const PlainUniform u = draw_uniform(p, b, h, i, j);
          const PlainEdge edge = gate_edge(p, h, S[r] * c2, state.log_sum_exp2, state.offset2, u);
          gradient = differentiate(p, edge, u, dA[r], state.row_term, weight);
        }
        add_weighted(dv[r], gradient.gated, dy_tile, p.d);
        add_weighted(dk[r], gradient.score, q_tile, p.d);
      }
    }
  }
  for (int r = 0; r < kOwn && row + r < p.T; ++r) {
    store_row<Number>(a.grad_k, b, kv_head, row + r, dk[r], p.scale, p.d);
    store_row<Number>(a.grad_v, b, kv_head, row + r, dv[r], 1.f, p.d);
  }
}

// own and tiles: how many row blocks of each kind the kernel stages.
template <class Arguments>
cudaError_t launch(void (*kernel)(Arguments), const Arguments& a, int heads, int own, int tiles,
                   cudaStream_t stream) {
  const int d = a.problem.d;
  const int bytes = (own * kPartRows * own_pitch(d) + tiles * kTile * tile_pitch(d)) * 4;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = static_cast<unsigned>(count_parts(a.problem.T)) * a.problem.B * heads;
  kernel<<<blocks, kWarps * 32, bytes, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_plain_forward(const Forward& a, cudaStream_t stream) {
  const auto kernel = a.problem.element == Element::kFloat32   ? forward_kernel<float>
                      : a.problem.element == Element::kFloat16 ? forward_kernel<__half>
                                                               : forward_kernel<__nv_bfloat16>;
  return launch(kernel, a, a.problem.H, 1, 1, stream);
}

cudaError_t launch_plain_queries(const Backward& a, cudaStream_t stream) {
  const auto kernel = a.problem.element == Element::kFloat32   ? query_kernel<float>
                      : a.problem.element == Element::kFloat16 ? query_kernel<__half>
                                                               : query_kernel<__nv_bfloat16>;
  return launch(kernel, a, a.problem.H, 2, 2, stream);
}

cudaError_t launch_plain_keys(const Backward& a, cudaStream_t stream) {
  const auto kernel = a.problem.element == Element::kFloat32   ? key_kernel<float>
                      : a.problem.element == Element::kFloat16 ? key_kernel<__half>
                                                               : key_kernel<__nv_bfloat16>;
  return launch(kernel, a, a.problem.key_heads, 2, 2, stream);
}

}  // namespace openwork::cuda
