// Before the forward walk of logprob and idle on Hopper: every row's log-sum-exp, which their gates must know. Nothing
// is held but a tile's scores and two numbers a row, so that a multiprocessor has more than twice the warps of the
// walk that gates (forward_hopper.cu), each waiting for the others' exponentials.
#include "ops/cuda/after.cuh"
#include "ops/cuda/forward.cuh"
#include "ops/cuda/sizes.cuh"
#include "ops/cuda/warpgroup.cuh"

namespace openwork::cuda {
namespace {

template <int D>
struct SumShape {
  static constexpr int kGroups = D == 64 ? 2 : 4;  // warpgroups over the same key tiles
  static constexpr int kBlocks = D == 64 ? 4 : 2;  // that a multiprocessor should hold
  static constexpr int kRows = kGroups * kGroupRows, kThreads = kGroups * kGroupThreads;
  static constexpr int kBytes = (kGroups + 2) * kPanelTileBytes<D> + 1024;  // the last: room to align
};

template <class Element, int D>
__global__ void __launch_bounds__(SumShape<D>::kThreads, SumShape<D>::kBlocks)
    sum_kernel(const __grid_constant__ Forward a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = SumShape<D>;
  constexpr int kTile = kPanelTileBytes<D>, kTiles = kGroupRows / 8;
  start_next_kernel();
  extern __shared__ char unaligned[];
  const uint32_t shared = (shared_address(unaligned) + 1023) & ~1023u;  // q of every group, two tiles of k
  const Problem& p = a.problem;
  const int blocks = (p.T + Shape::kRows - 1) / Shape::kRows, heads = p.B * p.H;
  // The longest walks first, of all heads: only keys are walked over, and take_turn's divisions would show (41 us for 37).
  const int block = blocks - 1 - blockIdx.x / heads, head = blockIdx.x % heads;
  if (block == 0 && threadIdx.x == 0) a.blocks_done[head] = 0;
  const int b = head / p.H, h = head % p.H, kv_head = h / (p.H / p.key_heads);
  const int warp = own_warp(), lane = threadIdx.x & 31, group = warp / 4;
  const int group_row = block * Shape::kRows + group * kGroupRows, first_row = group_row + warp % 4 * 16;
  const int tiles = (min((block + 1) * Shape::kRows, p.T) - 1) / kGroupRows + 1;
  const uint32_t queries = shared + group * kTile;
  const auto key_tile = [&](int tile) { return shared + (Shape::kGroups + (tile & 1)) * kTile; };

  // 1. This group's queries. Groups take turns at copying keys.
  PanelLoader<Element, D, Order::kPlain> q(head_of<Element>(p.q, b, h), p.q.row, group_row, p.T);
  PanelLoader<Element, D, Order::kPlain> k(head_of<Element>(p.k, b, kv_head), p.k.row, group * kGroupRows,
                                           p.T);
  const auto load_keys = [&](int tile) {
    if (tile < tiles && tile % Shape::kGroups == group) {
      k.load_next(key_tile(tile));
      k.skip(Shape::kGroups - 1);
    }
    commit_copies();
  };
  q.load_next(queries);
  load_keys(0);

  // 2. The walk. Before a barrier each warp has waited for its product, so that its keys may be copied over after it.
  RowSums<8> rows;  // its y is not used
  const float c2 = p.scale * kLog2E;
  const auto mask = [&](float(&S)[kTiles][4], int tile) {
    const int first_key = tile * kGroupRows;
    if (first_key + kGroupRows - 1 > first_row || first_row + 16 > p.T) {
      mask_scores<Order::kPlain>(S, first_key, first_row + lane / 4, p.T);
    }
  };
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies();
    show_writes();
    __syncthreads();
    load_keys(tile + 1);
    if (tile * kGroupRows > group_row || group_row >= p.T) continue;
    float S[kTiles][4];
    fence_group();
    multiply_rows<Element, D>(S, describe_tile(queries), describe_tile(key_tile(tile)));
    commit_group();
    wait_group<0>();
    hold(S);
    mask(S, tile);
    PlainSums sums;
    make_probabilities(rows, S, c2, kLowest2, tile == 0, sums, [&](float(&again)[kTiles][4]) {
      multiply_rows_alone<Element, D>(again, queries, key_tile(tile));
      mask(again, tile);
    });
  }

  store_log_sum_exp(a, b, h, first_row, {log_of_sum2(rows, 0), log_of_sum2(rows, 1)});
#else
  __trap();  // built without sm_90a: launch.h's users ask for this on Hopper only
#endif
}

template <class Element, int D>
cudaError_t launch_size(const Forward& a, cudaStream_t stream) {
  using Shape = SumShape<D>;
  const auto kernel = sum_kernel<Element, D>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kBytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.problem.T + Shape::kRows - 1) / Shape::kRows;
  kernel<<<blocks * a.problem.B * a.problem.H, Shape::kThreads, Shape::kBytes, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_row_sums(const Forward& a, cudaStream_t stream) {
  OPENWORK_FOR_GROUP_SIZE(launch_size, a, stream)
}

}  // namespace openwork::cuda
