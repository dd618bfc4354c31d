// The forward pass for Hopper, as forward.cu but with warpgroup products: a warpgroup takes 64 query rows,
// a block kGroups of them over the same key tiles of 64. A tile without an open gate in a warpgroup's rows
// skips its product with V (hard gates; sampled ones are never that sparse).
// logprob and idle find their rows' log-sum-exp done (row_sums.cu). For them it also leaves the rows' slopes where the
// fused backward pass will want them (launch.h, RowSlopes): of sampled gates one product with V more, in which
// P s(1 - s) stands for P z.
#include "ops/cuda/after.cuh"
#include "ops/cuda/forward.cuh"
#include "ops/cuda/parts.cuh"
#include "ops/cuda/sizes.cuh"
#include "ops/cuda/warpgroup.cuh"

namespace openwork::cuda {
namespace {

template <int D, Slopes kept>
struct HopperShape {
  // Warpgroups of a block: two rows of sums at d = 128 fill the registers that three would have.
  static constexpr int kGroups = D == 64 ? 1 : kept == Slopes::kRows ? 2 : 3;
  // Blocks that a multiprocessor should hold: more warps, or more registers for the noise.
  static constexpr int blocks(bool sampled) { return D > 64 ? 1 : sampled ? 3 : 4; }
  static constexpr int kRows = kGroups * kGroupRows, kThreads = kGroups * kGroupThreads;
  static constexpr int kBytes = (kGroups + 4) * kPanelTileBytes<D> + 1024;  // the last: room to align
};

template <class Element, int D, bool kSampled, bool kOfRow, Slopes kept>
struct HopperGroup {
  using Shape = HopperShape<D, kept>;
  static constexpr int kTile = kPanelTileBytes<D>, kTiles = kGroupRows / 8;

  const Forward& a;
  uint32_t shared;  // q of every group, two tiles of k, two of v
  PanelLoader<Element, D, Order::kOctets> k, v;
  int group, lane, first_row, tiles;  // first_row of this warp
  float c2, bias2;
  uint64_t counters[2];
  RowSums<D, kept> rows;
  bool wide = false;  // of kOfRow

  __device__ __forceinline__ uint32_t key_tile(int stage) const {
    return shared + (Shape::kGroups + stage) * kTile;
  }
  __device__ __forceinline__ uint32_t value_tile(int stage) const { return key_tile(2 + stage); }

  __device__ __forceinline__ void load(int tile) {
    const int stage = tile & 1;
    if (group == 0) k.load_next(key_tile(stage));
    if (group == (Shape::kGroups > 1)) v.load_next(value_tile(stage));
    commit_copies();
  }

  // What row_sums.cu left of the lane's rows; a row past the end has no scores to be held against it.
  __device__ __forceinline__ void take_reference(int b, int h) {
    const Problem& p = a.problem;
    const float* log_sum_exp = a.log_sum_exp + (static_cast<int64_t>(b) * p.H + h) * p.T;
    const int row = first_row + lane / 4, last = p.T - 1;
    wide = set_reference<Element>(
        rows, p, h, {log_sum_exp[min(row, last)] * kLog2E, log_sum_exp[min(row + 8, last)] * kLog2E});
  }

  // The first tile's copies are under way. Of each tile that has causal keys of this group's rows the next is copied
  // while its scores are made.
  __device__ __forceinline__ void walk() {
    const int group_row = first_row / kGroupRows * kGroupRows;
    for (int tile = 0; tile < tiles; ++tile) {
      wait_for_copies();
      show_writes();
      __syncthreads();
      const auto meanwhile = [&] {
        if (tile + 1 < tiles) load(tile + 1);
      };
      if (tile * kGroupRows <= group_row && group_row < a.problem.T) {
        take(tile, meanwhile);
      } else {
        meanwhile();
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ void mask(float (&S)[kTiles][4], int tile) const {
    const int first_key = tile * kGroupRows;
    if (first_key + kGroupRows - 1 > first_row || first_row + 16 > a.problem.T) {
      mask_scores<Order::kOctets>(S, first_key, first_row + lane / 4, a.problem.T);
    }
  }
  // meanwhile(): done under the product.
  template <class Meanwhile>
  __device__ __forceinline__ void score(float (&S)[kTiles][4], int tile, Meanwhile meanwhile) {
    fence_group();
    multiply_rows<Element, D>(S, describe_tile(shared + group * kTile), describe_tile(key_tile(tile & 1)));
    commit_group();
    meanwhile();
    wait_group<0>();
    hold(S);
    mask(S, tile);
  }
  __device__ __forceinline__ bool normalise(float (&S)[kTiles][4], float bias2, int tile) {
    PlainSums sums;
    return make_probabilities(rows, S, c2, bias2, tile == 0, sums, [&](float(&again)[kTiles][4]) {
      multiply_rows_alone<Element, D>(again, shared + group * kTile, key_tile(tile & 1));
      mask(again, tile);
    });
  }

  template <class Meanwhile>
  __device__ __forceinline__ void take(int tile, Meanwhile meanwhile) {
    float p[kTiles][4];
    const uint64_t octet = tile * (kGroupRows / kGateKeys);
    const RowNoise<kSampled, kTiles> noise{a.problem, {counters[0] + octet, counters[1] + octet}};
    score(p, tile, meanwhile);
    bool narrow;
    if constexpr (kOfRow) {
      narrow = !wide;
    } else {
      narrow = normalise(p, bias2, tile);
    }
    const auto gates = gate_step<kSampled, kOfRow, Element>(a.problem, rows, p, c2, noise, narrow);
    if constexpr (!kSampled) {
      const bool any = (gates.opened[0] | gates.opened[1] | gates.opened[2] | gates.opened[3]) != 0;
      if (!any_in_group(any, 1 + group)) return;
    }
    fence_group();
    const uint64_t values = describe_tile(value_tile(tile & 1));
    multiply_columns<Element, D>(rows.y, gates.gated, values);
    if constexpr (kept == Slopes::kRows) multiply_columns<Element, D>(rows.slope_row, gates.slopes, values);
    wait_group<0>();
    hold(rows.y);
    if constexpr (kept == Slopes::kRows) hold(rows.slope_row);
  }
};

// After all of a block's warps have left their parts: the last of a head's blocks adds them up. Which head it is is found
// anew, so that no register holds it through the walk.
template <int kRows>
__device__ __forceinline__ void finish_head(const Forward& a) {
  int index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  const Problem& p = a.problem;
  const int blocks = (p.T + kRows - 1) / kRows;
  const int head = take_turn(index, blocks, p.B * p.H, p.heads_at_once).head;
  __syncthreads();
  bool is_last = false;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(a.blocks_done + head, 1) == blocks - 1;
  }
  if (!__syncthreads_or(is_last) || threadIdx.x >= 32) return;
  __threadfence();
  add_forward_parts(a, head);
}

template <class Element, int D, bool kSampled, bool kOfRow, Slopes kept>
__global__ void __launch_bounds__(HopperShape<D, kept>::kThreads, HopperShape<D, kept>::blocks(kSampled))
    hopper_kernel(const __grid_constant__ Forward a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = HopperShape<D, kept>;
  using Group = HopperGroup<Element, D, kSampled, kOfRow, kept>;
  extern __shared__ char unaligned[];
  const uint32_t start = shared_address(unaligned), shared = (start + 1023) & ~1023u;
  const Problem& p = a.problem;
  const int blocks = (p.T + Shape::kRows - 1) / Shape::kRows;
  const Turn turn = take_turn(blockIdx.x, blocks, p.B * p.H, p.heads_at_once);
  const int block = blocks - 1 - turn.rank, b = turn.head / p.H, h = turn.head % p.H;
  const int kv_head = h / (p.H / p.key_heads);
  const int warp = own_warp(), lane = threadIdx.x & 31;
  const int group = Shape::kGroups == 1 ? 0 : warp / 4;

  // 1. This group's queries, and where everything is.
  Group run{a,
            shared,
            {head_of<Element>(p.k, b, kv_head), p.k.row, 0, p.T},
            {head_of<Element>(p.v, b, kv_head), p.v.row, 0, p.T},
            group,
            lane,
            block * Shape::kRows + warp * 16,
            (min((block + 1) * Shape::kRows, p.T) - 1) / kGroupRows + 1,
            p.scale * kLog2E,
            bias_in_log2(p.bias[h])};
  if constexpr (kSampled) {
    const NoiseRows noise = noise_rows(p, b, h);
    run.counters[0] = noise.row(run.first_row + lane / 4);
    run.counters[1] = noise.row(run.first_row + lane / 4 + 8);
  }
  PanelLoader<Element, D, Order::kPlain> q(head_of<Element>(p.q, b, h), p.q.row,
                                           block * Shape::kRows + group * kGroupRows, p.T);
  q.load_next(shared + group * Group::kTile);

  run.load(0);

  // 2. The walk.
  run.rows.floor = hard_floor(p, h);
  if constexpr (kOfRow) {
    await_last_kernel();  // row_sums.cu's
    run.take_reference(b, h);
  }
  run.walk();

  // 3. Rows out, through the tiles, which nothing reads any more.
  Element* own = reinterpret_cast<Element*>(unaligned + (shared - start)) + warp * 16 * kPitch<D>;
  finish_rows<Element, kOfRow>(a, run.rows, own, b, h, run.first_row);

  // 4. The head's last block adds up what all have left.
  if constexpr (kOfRow) finish_head<Shape::kRows>(a);
#else
  __trap();  // built without sm_90a: launch.h's users ask for this on Hopper only
#endif
}

template <class Element, int D, bool kSampled, bool kOfRow, Slopes kept = Slopes::kNone>
cudaError_t launch(const Forward& a, cudaStream_t stream) {
  using Shape = HopperShape<D, kept>;
  const auto kernel = hopper_kernel<Element, D, kSampled, kOfRow, kept>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kBytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.problem.T + Shape::kRows - 1) / Shape::kRows * a.problem.B * a.problem.H;
  if constexpr (kOfRow) {
    const cudaError_t failed = launch_row_sums(a, stream);
    if (failed != cudaSuccess) return failed;
    return launch_after(kernel, blocks, Shape::kThreads, Shape::kBytes, stream, a);
  }
  kernel<<<blocks, Shape::kThreads, Shape::kBytes, stream>>>(a);
  const cudaError_t failed = cudaGetLastError();
  return failed == cudaSuccess ? launch_sum_forward_parts(a, stream) : failed;
}

template <class Element, int D>
cudaError_t launch_gate(const Forward& a, cudaStream_t stream) {
  const Problem& p = a.problem;
  if (p.of_row && a.slope_sums) {
    return p.sampled ? launch<Element, D, true, true, Slopes::kRows>(a, stream)
                     : launch<Element, D, false, true, Slopes::kSums>(a, stream);
  }
  if (p.sampled) {
    return p.of_row ? launch<Element, D, true, true>(a, stream) : launch<Element, D, true, false>(a, stream);
  }
  return p.of_row ? launch<Element, D, false, true>(a, stream) : launch<Element, D, false, false>(a, stream);
}

}  // namespace

cudaError_t launch_hopper_forward(const Forward& a, cudaStream_t stream) {
  OPENWORK_FOR_GROUP_SIZE(launch_gate, a, stream)
}

}  // namespace openwork::cuda
