// The backward pass in one walk, for Hopper: dk, dv and dq together, so that every edge's noise is drawn and
// its gradients are made once. A block (one warpgroup) takes 64 keys of one key/value head and walks the
// query tiles from the diagonal on, queries as rows:
//   S = Q K^T, dA = dY V^T;   dq += dS K from registers;   dv += (P z)^T dY, dk += dS^T Q by shared memory
// dq is summed over key blocks by float32 additions in global memory, in no fixed order: where results must
// repeat bit for bit the two passes of backward_queries.cu and backward_keys.cu run instead.
#include "ops/cuda/after.cuh"
#include "ops/cuda/backward.cuh"
#include "ops/cuda/bulk.cuh"
#include "ops/cuda/parts.cuh"
#include "ops/cuda/sizes.cuh"
#include "ops/cuda/warpgroup.cuh"

namespace openwork::cuda {
namespace {

template <int D>
struct FusedShape {
  static constexpr int kTile = kPanelTileBytes<D>, kEdges = kGroupRows * kGroupRows * 2;
  static constexpr int kBarriers = 6 * kTile + 2 * kEdges;  // where they are
  static constexpr int kBytes = kBarriers + 2 * 8;          // at d = 128, nearly half of what there is
};

[[maybe_unused]] __device__ __forceinline__ void add_four(float* to, const float (&x)[4]) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3])
               : "memory");
}

template <class Element, int D, bool kSampled, bool kOfRow>
struct FusedBlock {
  static constexpr Wanted kWanted = kOfRow ? Wanted::kGated : Wanted::kGatedAndGates;
  static constexpr int kTile = FusedShape<D>::kTile, kEdges = FusedShape<D>::kEdges, kTiles = kGroupRows / 8;

  const Backward& a;
  uint32_t shared;  // k, v, two tiles of q, two of dy, P z, dS, a barrier for each stage of q and dy
  int b, lane, warp, block_key;
  float c2;
  float weight = 0, floor = 0;  // of the query head: dpenalty / N; see hard_floor
  NoiseRows head_noise = {};    // of the query head
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};
  float gate_sum[2] = {0, 0};  // of score

  __device__ __forceinline__ uint32_t q_tile(int stage) const { return shared + (2 + stage) * kTile; }
  __device__ __forceinline__ uint32_t dy_tile(int stage) const { return shared + (4 + stage) * kTile; }
  __device__ __forceinline__ uint32_t gated_tile() const { return shared + 6 * kTile; }
  __device__ __forceinline__ uint32_t score_tile() const { return gated_tile() + kEdges; }
  __device__ __forceinline__ uint32_t arrived(int stage) const {
    return shared + FusedShape<D>::kBarriers + 8 * stage;
  }

  // By one thread.
  __device__ __forceinline__ void load(int stage, int h, int tile) const {
    announce(arrived(stage), 2 * kTile);
    copy_box<D>(q_tile(stage), a.q_map, b, h, tile * kGroupRows, arrived(stage));
    copy_box<D>(dy_tile(stage), a.dy_map, b, h, tile * kGroupRows, arrived(stage));
  }
  // A row past the end takes the last one's: it has no scores.
  __device__ __forceinline__ RowState read_state(int h, int row) const {
    const Problem& p = a.problem;
    const RowState* state = a.states + (static_cast<int64_t>(b) * p.H + h) * p.T + min(row, p.T - 1);
    const float4 x = __ldcg(reinterpret_cast<const float4*>(state));
    return {x.x, x.y, x.z, x.w};
  }

  // dq of the tile's queries, this warp's sixteen of them, added to what other key blocks give (launch.h, query_sums).
  __device__ __forceinline__ void add_queries(const float (&dq)[D / 8][4], int h, int first_row) const {
    const Problem& p = a.problem;
    if (first_row >= p.T) return;
    const int64_t part = (static_cast<int64_t>(b) * p.H + h) * count_parts(p.T) + first_row / kPartRows;
    float* to = a.query_sums + part * (kPartRows * D) + lane * 4;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) add_four(to + n * 128, dq[n]);
  }

  // The walk's step-th step; the sums of the one before may still be under way. next_h, next_tile: of the next step,
  // `more` where there is one; it is copied under this one's edges.
  __device__ __forceinline__ void take(int h, int tile, uint32_t step, bool more, int next_h, int next_tile) {
    const int stage = step & 1;
    const uint64_t k = describe_tile(shared), v = describe_tile(shared + kTile);
    const uint64_t queries = describe_tile(q_tile(stage)), gradients = describe_tile(dy_tile(stage));
    const int first_row = tile * kGroupRows + warp * 16, row = first_row + lane / 4;
    // 1. Scores and the gradients of gated probabilities.
    float S[kTiles][4], dA[kTiles][4];
    wait_for_phase(arrived(stage), step >> 1 & 1);
    fence_group();
    multiply_rows<Element, D>(S, queries, k);
    multiply_rows<Element, D>(dA, gradients, v);
    commit_group();
    const uint64_t octet = block_key / kGateKeys;
    const RowNoise<kSampled, kTiles> noise{a.problem,
                                           {head_noise.row(row) + octet, head_noise.row(row + 8) + octet}};
    const RowState state[2] = {read_state(h, row), read_state(h, row + 8)};
    wait_group<0>();
    hold(S);
    hold(dA);
    const bool wide = __any_sync(kWholeWarp, fmaxf(state[0].offset2, state[1].offset2) > kWideOffset2);
    // No warp reads the step before any more. (A third stage and a second place for P z and dS make this barrier
    // needless, and the walk 12 % slower: warps that drift apart wait for each other at the products.)
    __syncthreads();
    if (more && threadIdx.x == 0) load(stage ^ 1, next_h, next_tile);
    __syncwarp();
    // 2. Edge by edge.
    if (block_key + kGroupRows - 1 > first_row || first_row + 16 > a.problem.T) {
      mask_scores<Order::kOctets>(S, block_key, row, a.problem.T);
    }
    differentiate_rows<kSampled, kWanted>(a.problem, S, dA, state, c2, noise, weight, floor, wide, gate_sum);
    Fragment gated[4], ds[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      gated[n] = pack_left<Element>(S[2 * n], S[2 * n + 1]);
      ds[n] = pack_left<Element>(dA[2 * n], dA[2 * n + 1]);
    }
    store_rows(gated_tile(), gated);
    store_rows(score_tile(), ds);
    show_writes();
    __syncthreads();
    // 3. The three sums.
    float dq[D / 8][4];
    fence_group();
    multiply_columns<Element, D>(dq, ds, k, false);
    multiply_columns<Element, D>(dv, describe_tile(gated_tile()), gradients);
    multiply_columns<Element, D>(dk, describe_tile(score_tile()), queries);
    wait_group<2>();
    hold(dq);
    add_queries(dq, h, first_row);
  }

  // dbias of score: this block's share, in the first of its parts.
  __device__ __forceinline__ void store_gates(int h, float* group_sums) const {
    __syncthreads();
    const float gates = sum_over_warp(gate_sum[0] + gate_sum[1]);
    if (lane == 0) group_sums[warp] = gates;
    __syncthreads();
    const int parts = count_parts(a.problem.T), part = block_key / kPartRows + threadIdx.x;
    if (threadIdx.x < 4 && part < parts) {
      const float whole = (group_sums[0] + group_sums[1]) + (group_sums[2] + group_sums[3]);
      a.bias_parts[(static_cast<int64_t>(b) * a.problem.H + h) * parts + part] =
          threadIdx.x == 0 ? whole : 0.f;
    }
    __syncthreads();
  }
};

// Two neighbouring numbers of one kind.
template <class Element>
__device__ __forceinline__ float2 unpack(uint32_t two) {
  const auto* x = reinterpret_cast<const Element*>(&two);
  return {static_cast<float>(x[0]), static_cast<float>(x[1])};
}

// A pair turned back by its position's angle, in place.
__device__ __forceinline__ void turn_back(float& first, float& second, float cosine, float sine) {
  const float turned = fmaf(first, cosine, second * sine);
  second = fmaf(second, cosine, -first * sine);
  first = turned;
}

// A lane's sums of keys `key` and key + 2: columns 8n + 2t, + 1 are n's.
template <class Element, int D>
__device__ __forceinline__ void turn_keys_back(const Backward& a, float (&dk)[D / 8][4], int key) {
  constexpr int kHalf = D / 16;  // products from a pair's first to its second
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t place =
        static_cast<int64_t>(min(key + 2 * r, a.problem.T - 1)) * (D / 2) + 2 * (threadIdx.x & 3);
    const auto* cosine = reinterpret_cast<const uint32_t*>(static_cast<const Element*>(a.cosine) + place);
    const auto* sine = reinterpret_cast<const uint32_t*>(static_cast<const Element*>(a.sine) + place);
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
      const float2 c = unpack<Element>(cosine[n * 4]), s = unpack<Element>(sine[n * 4]);
      turn_back(dk[n][2 * r], dk[n + kHalf][2 * r], c.x, s.x);
      turn_back(dk[n][2 * r + 1], dk[n + kHalf][2 * r + 1], c.y, s.y);
    }
  }
}

template <class Element, int D, bool kSampled, bool kOfRow>
__global__ void __launch_bounds__(kGroupThreads, D == 64 && !kSampled ? 3 : 2)
    fused_kernel(const __grid_constant__ Backward a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Block = FusedBlock<Element, D, kSampled, kOfRow>;
  start_next_kernel();
  extern __shared__ __align__(1024) char pointer[];
  const uint32_t shared = shared_address(pointer);
  const Problem& p = a.problem;
  const int blocks = (p.T + kGroupRows - 1) / kGroupRows;
  const Turn turn = take_turn(blockIdx.x, blocks, p.B * p.key_heads, p.key_heads_at_once);
  const int block = turn.rank, b = turn.head / p.key_heads, kv_head = turn.head % p.key_heads;
  const int group = p.H / p.key_heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, block_key = block * kGroupRows;
  const int first_head = kv_head * group, end_head = first_head + group;
  Block run{a, shared, b, lane, warp, block_key, p.scale * kLog2E};

  // 1. Keys, values, and the first queries.
  if (threadIdx.x == 0) {
    fetch_map(a.q_map);
    fetch_map(a.dy_map);
    make_barrier(run.arrived(0));
    make_barrier(run.arrived(1));
    show_barriers();
    run.load(0, first_head, block);
  }
  PanelLoader<Element, D, Order::kOctets> k(head_of<Element>(p.k, b, kv_head), p.k.row, block_key, p.T);
  PanelLoader<Element, D, Order::kOctets> v(head_of<Element>(p.v, b, kv_head), p.v.row, block_key, p.T);
  k.load_next(shared);
  v.load_next(shared + Block::kTile);
  commit_copies();
  await_last_kernel();  // row_states.cu's

  // 2. The walk, query head after query head.
  uint32_t step = 0;
  wait_for_copies();
  show_writes();
  __syncthreads();
  for (int h = first_head; h < end_head; ++h) {
    run.weight = penalty_weight(a, b, h);
    run.head_noise = noise_rows(p, b, h);
    run.floor = hard_floor(p, h);
    run.gate_sum[0] = run.gate_sum[1] = 0;
    for (int tile = block; tile < blocks; ++tile, ++step) {
      const bool last = tile + 1 == blocks;
      const int next_h = last ? h + 1 : h, next_tile = last ? block : tile + 1;
      run.take(h, tile, step, next_h < end_head, next_h, next_tile);
    }
    wait_group<0>();
    if constexpr (!kOfRow) run.store_gates(h, reinterpret_cast<float*>(pointer + 6 * Block::kTile));
  }

  // 3. Rows out, through the tiles of q and dy, which nothing reads any more. Sums have keys in kOctets
  // order: of thirty-two, a warp has the first or second four of every eight.
  hold(run.dk);
  hold(run.dv);
  __syncthreads();
  const int g = lane >> 2, key = (g >> 1) * 4 + (g & 1);
  const int first_key = block_key + (warp >> 1) * 32 + (warp & 1) * 4;
  if (a.cosine) turn_keys_back<Element, D>(a, run.dk, first_key + key + (g >> 1) * 4);
  Element* own = reinterpret_cast<Element*>(pointer + 2 * Block::kTile) + warp * 16 * kPitch<D>;
  store_sums<Element, D>(own, run.dk, key, key + 2, p.scale, p.scale, head_of<Element>(a.grad_k, b, kv_head),
                         a.grad_k.row, first_key, p.T, 4);
  store_sums<Element, D>(own, run.dv, key, key + 2, 1.f, 1.f, head_of<Element>(a.grad_v, b, kv_head),
                         a.grad_v.row, first_key, p.T, 4);
#else
  __trap();  // built without sm_90a: launch.h's users ask for this on Hopper only
#endif
}

// Of a product's sixteen numbers, as query_sums has them (launch.h): eight of row g, eight of row g + 8.
template <class Element>
struct EightOfTwoRows {
  float upper[8], lower[8];

  __device__ __forceinline__ EightOfTwoRows(const float* from, float factor) {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const float4 x = reinterpret_cast<const float4*>(from)[t];
      upper[2 * t] = x.x * factor, upper[2 * t + 1] = x.y * factor;
      lower[2 * t] = x.z * factor, lower[2 * t + 1] = x.w * factor;
    }
  }
  static __device__ __forceinline__ void store(Element* to, const float (&x)[8]) {
    *reinterpret_cast<uint4*>(to) = {pack<Element>(x[0], x[1]), pack<Element>(x[2], x[3]),
                                     pack<Element>(x[4], x[5]), pack<Element>(x[6], x[7])};
  }
};

// Eight pairs of one row, turned back.
template <class Element, int D>
__device__ __forceinline__ void turn_eight_back(const Backward& a, float (&first)[8], float (&second)[8],
                                                int row, int column) {
  const int64_t place = static_cast<int64_t>(row) * (D / 2) + column;
  const uint4 cosines = *reinterpret_cast<const uint4*>(static_cast<const Element*>(a.cosine) + place);
  const uint4 sines = *reinterpret_cast<const uint4*>(static_cast<const Element*>(a.sine) + place);
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const float2 c = unpack<Element>((&cosines.x)[t]), s = unpack<Element>((&sines.x)[t]);
    turn_back(first[2 * t], second[2 * t], c.x, s.x);
    turn_back(first[2 * t + 1], second[2 * t + 1], c.y, s.y);
  }
}

// After the walk: the gates' gradients by the first blocks; then dq = c times its sum, rounded, and turned back where
// q was turned. A thread takes eight columns of the first half of two rows, and the eight that they are turned with.
template <class Element, int D, bool kTurned>
__global__ void __launch_bounds__(kPartThreads) round_kernel(const __grid_constant__ Backward a) {
  await_last_kernel();
  const Problem& p = a.problem;
  const int block = static_cast<int>(blockIdx.x) - count_gate_sums(a);
  if (block < 0) return add_gate_parts(a, static_cast<int>(blockIdx.x));
  constexpr int kHalf = D / 16;
  const int64_t piece = static_cast<int64_t>(block) * kPartThreads + threadIdx.x;
  const int parts = count_parts(p.T), g = static_cast<int>(piece % 8),
            n = static_cast<int>(piece / 8 % kHalf);
  const int64_t part = piece / (8 * kHalf), head = part / parts;
  if (head >= static_cast<int64_t>(p.B) * p.H) return;
  const float* from = a.query_sums + part * (kPartRows * D) + n * 128 + g * 16;
  EightOfTwoRows<Element> first(from, p.scale), second(from + kHalf * 128, p.scale);
  const int row = static_cast<int>(part % parts) * kPartRows + g;
  Element* to = head_of<Element>(a.grad_q, static_cast<int>(head / p.H), static_cast<int>(head % p.H)) +
                row * a.grad_q.row + n * 8;
  if (row < p.T) {
    if constexpr (kTurned) turn_eight_back<Element, D>(a, first.upper, second.upper, row, n * 8);
    first.store(to, first.upper);
    second.store(to + D / 2, second.upper);
  }
  if (row + 8 < p.T) {
    to += 8 * a.grad_q.row;
    if constexpr (kTurned) turn_eight_back<Element, D>(a, first.lower, second.lower, row + 8, n * 8);
    first.store(to, first.lower);
    second.store(to + D / 2, second.lower);
  }
}

template <class Element, int D, bool kSampled, bool kOfRow>
cudaError_t launch_walk(const Backward& a, cudaStream_t stream) {
  const auto kernel = fused_kernel<Element, D, kSampled, kOfRow>;
  constexpr int kBytes = FusedShape<D>::kBytes;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.problem.T + kGroupRows - 1) / kGroupRows;
  return launch_after(kernel, blocks * a.problem.B * a.problem.key_heads, kGroupThreads, kBytes, stream, a);
}

template <class Element, int D>
cudaError_t launch_size(const Backward& a, cudaStream_t stream) {
  const Problem& p = a.problem;
  const int64_t pieces = static_cast<int64_t>(p.B) * p.H * count_parts(p.T) * (D / 2);
  const auto walk =
      p.of_row ? (p.sampled ? launch_walk<Element, D, true, true> : launch_walk<Element, D, false, true>)
               : (p.sampled ? launch_walk<Element, D, true, false> : launch_walk<Element, D, false, false>);
  const cudaError_t error = walk(a, stream);
  if (error != cudaSuccess) return error;
  const auto blocks = static_cast<unsigned>((pieces + kPartThreads - 1) / kPartThreads);
  const auto round = a.cosine ? round_kernel<Element, D, true> : round_kernel<Element, D, false>;
  return launch_after(round, count_gate_sums(a) + blocks, kPartThreads, 0, stream, a);
}

}  // namespace

cudaError_t launch_fused_backward(const Backward& a, cudaStream_t stream) {
  const cudaError_t error = launch_row_states(a, stream);
  if (error != cudaSuccess) return error;
  OPENWORK_FOR_GROUP_SIZE(launch_size, a, stream)
}

}  // namespace openwork::cuda
