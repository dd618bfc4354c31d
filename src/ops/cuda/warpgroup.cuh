// Hopper's warpgroup products (wgmma, sm_90a): four warps multiply a 64-row left operand at once, operands
// read from shared memory by the tensor cores themselves, sums in registers in the layout of tile.cuh.
//
// A tile of rows is stored in panels (layout.h): the 128-byte swizzle, in which the same tile serves 'by
// rows' (columns are summed over) and 'by columns' (rows are summed over).
#pragma once
#include "ops/cuda/gate.cuh"
#include "ops/cuda/tile.cuh"

namespace openwork::cuda {

inline constexpr int kGroupThreads = 128;

template <int D>
inline constexpr int kPanelTileBytes = kGroupRows* D * 2;

// Copies the rows of one head into tiles, 64 after 64, from row `first` on. Where a thread's pieces lie is
// worked out once: they are kStepRows rows apart, and place_row moves bits, so a step's place is the first
// one's plus a constant, and the swizzle turns by what that constant changes of row % 8.
template <class Element, int D, Order order>
struct PanelLoader {
  static constexpr int kChunks = D / 8, kStepRows = kGroupThreads / kChunks;

  const Element* rows;   // a place that may be read
  const Element* piece;  // this thread's first piece of the next tile
  int64_t step;          // elements from one of its pieces to the next
  int left;              // rows from this thread's first one to the end
  uint32_t base;

  __device__ __forceinline__ PanelLoader(const Element* rows, int64_t stride, int first, int end)
      : rows(rows) {
    const int row = threadIdx.x % kGroupThreads / kChunks, chunk = threadIdx.x % kChunks;
    piece = rows + (first + row) * stride + chunk * 8;
    step = kStepRows * stride;
    left = end - first - row;
    base = panel_offset(place_row<order>(row), chunk);
  }

  __device__ __forceinline__ uint32_t place(int row) const { return step_panel(base, place_row<order>(row)); }

  // Leaves out the next tiles.
  __device__ __forceinline__ void skip(int tiles) {
    piece += static_cast<int64_t>(tiles) * (kGroupRows / kStepRows) * step;
    left -= tiles * kGroupRows;
  }

  // Starts copying the next 64 rows; rows past the end are zeros.
  __device__ __forceinline__ void load_next(uint32_t tile) {
    if (left > kGroupRows - kStepRows) {
#pragma unroll
      for (int row = 0; row < kGroupRows; row += kStepRows, piece += step) {
        copy_async(tile + place(row), piece);
      }
    } else {
#pragma unroll 1
      for (int row = 0; row < kGroupRows; row += kStepRows, piece += step) {
        copy_async(tile + place(row), row < left ? piece : rows, row < left);
      }
    }
    left -= kGroupRows;
  }
};

// What the tensor cores are told of a tile: where it is, how far the next panel and the next eight rows are.
__device__ __forceinline__ uint64_t describe_tile(uint32_t address) {
  constexpr uint64_t kPanel = kGroupRows * 128 / 16, kEightRows = 1024 / 16, kSwizzle128 = 1;
  return (address & 0x3FFFF) >> 4 | kPanel << 16 | kEightRows << 32 | kSwizzle128 << 62;
}
// Descriptor of sixteen columns from 16 k on (by rows), and of sixteen rows from 16 k on (by columns).
__device__ __forceinline__ uint64_t sixteen_columns(uint64_t tile, int k) {
  return tile + (k / 4) * (kGroupRows * 128 / 16) + (k % 4) * 2;
}
__device__ __forceinline__ uint64_t sixteen_rows(uint64_t tile, int k) {
  return tile + k * (2048 / 16);
}

__device__ __forceinline__ void fence_group() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// What this thread wrote to shared memory, seen by the tensor cores after the next barrier.
__device__ __forceinline__ void show_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Keeps the compiler from moving uses of sums across a wait.
template <int kTiles>
__device__ __forceinline__ void hold(float (&sum)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) asm volatile("" : "+f"(sum[n][c])::"memory");
  }
}

// True in all threads of a warpgroup where it is in any; `barrier` 1 to 15, one per warpgroup of the block.
__device__ __forceinline__ bool any_in_group(bool mine, int barrier) {
  int any;
  asm volatile(
      "{ .reg .pred p, q; setp.ne.b32 p, %1, 0; barrier.cta.red.or.pred q, %2, 128, p; selp.b32 %0, 1, 0, q; "
      "}"
      : "=r"(any)
      : "r"(static_cast<int>(mine)), "r"(barrier)
      : "memory");
  return any;
}

#define OPENWORK_SUMS(s, i)                                                                          \
  "+f"(s[i][0]), "+f"(s[i][1]), "+f"(s[i][2]), "+f"(s[i][3]), "+f"(s[i + 1][0]), "+f"(s[i + 1][1]),  \
      "+f"(s[i + 1][2]), "+f"(s[i + 1][3]), "+f"(s[i + 2][0]), "+f"(s[i + 2][1]), "+f"(s[i + 2][2]), \
      "+f"(s[i + 2][3]), "+f"(s[i + 3][0]), "+f"(s[i + 3][1]), "+f"(s[i + 3][2]), "+f"(s[i + 3][3])
#define OPENWORK_LIST_0_31                                                                                 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
  "%28,%29,%30,%31"
#define OPENWORK_LIST_32_63                                                                               \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56," \
  "%57,%58,%59,%60,%61,%62,%63"
// Left operand from shared memory (SS) or registers (RS); columns 64 or 128; element bf16 or f16.
#define OPENWORK_WGMMA_SS_64(type, s, a, b, keep, ta, tb)                                                \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type \
               "." type " {" OPENWORK_LIST_0_31 "}, %32, %33, p, 1, 1, %35, %36; }"                      \
               : OPENWORK_SUMS(s, 0), OPENWORK_SUMS(s, 4)                                                \
               : "l"(a), "l"(b), "r"(keep), "n"(ta), "n"(tb))
#define OPENWORK_WGMMA_SS_128(type, s, a, b, keep, ta, tb)                                                \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type \
               "." type " {" OPENWORK_LIST_0_31 OPENWORK_LIST_32_63 "}, %64, %65, p, 1, 1, %67, %68; }"   \
               : OPENWORK_SUMS(s, 0), OPENWORK_SUMS(s, 4), OPENWORK_SUMS(s, 8), OPENWORK_SUMS(s, 12)      \
               : "l"(a), "l"(b), "r"(keep), "n"(ta), "n"(tb))
#define OPENWORK_WGMMA_RS_64(type, s, a, b, keep)                                                        \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type \
               "." type " {" OPENWORK_LIST_0_31 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1; }"               \
               : OPENWORK_SUMS(s, 0), OPENWORK_SUMS(s, 4)                                                \
               : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "l"(b), "r"(keep))
#define OPENWORK_WGMMA_RS_128(type, s, a, b, keep)                                                        \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type \
               "." type " {" OPENWORK_LIST_0_31 OPENWORK_LIST_32_63                                       \
               "}, {%64,%65,%66,%67}, %68, p, 1, 1, 1; }"                                                 \
               : OPENWORK_SUMS(s, 0), OPENWORK_SUMS(s, 4), OPENWORK_SUMS(s, 8), OPENWORK_SUMS(s, 12)      \
               : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "l"(b), "r"(keep))

// One step of sixteen: sum (+)= left . right, both from shared memory; `keep` 0 starts the sum anew.
template <class Element, bool kLeftByColumns, bool kRightByColumns, int kTiles>
__device__ __forceinline__ void multiply_shared(float (&sum)[kTiles][4], uint64_t left, uint64_t right,
                                                int keep) {
  constexpr int ta = kLeftByColumns, tb = kRightByColumns;
  if constexpr (__is_same(Element, __nv_bfloat16)) {
    if constexpr (kTiles == 8) OPENWORK_WGMMA_SS_64("bf16", sum, left, right, keep, ta, tb);
    if constexpr (kTiles == 16) OPENWORK_WGMMA_SS_128("bf16", sum, left, right, keep, ta, tb);
  } else {
    if constexpr (kTiles == 8) OPENWORK_WGMMA_SS_64("f16", sum, left, right, keep, ta, tb);
    if constexpr (kTiles == 16) OPENWORK_WGMMA_SS_128("f16", sum, left, right, keep, ta, tb);
  }
}
// The same with the left operand in registers and the right one by columns.
template <class Element, int kTiles>
__device__ __forceinline__ void multiply_registers(float (&sum)[kTiles][4], const Fragment& left,
                                                   uint64_t right, int keep) {
  if constexpr (__is_same(Element, __nv_bfloat16)) {
    if constexpr (kTiles == 8) OPENWORK_WGMMA_RS_64("bf16", sum, left, right, keep);
    if constexpr (kTiles == 16) OPENWORK_WGMMA_RS_128("bf16", sum, left, right, keep);
  } else {
    if constexpr (kTiles == 8) OPENWORK_WGMMA_RS_64("f16", sum, left, right, keep);
    if constexpr (kTiles == 16) OPENWORK_WGMMA_RS_128("f16", sum, left, right, keep);
  }
}

// sum[64 x 64] = left[64 x D] . right[64 x D]^T; not committed, nor waited for.
template <class Element, int D>
__device__ __forceinline__ void multiply_rows(float (&sum)[8][4], uint64_t left, uint64_t right) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    multiply_shared<Element, false, false>(sum, sixteen_columns(left, k), sixteen_columns(right, k), k != 0);
  }
}
// sum[64 x D] (+)= left[64 x 64] . right[64 x D], the left operand as four fragments or from a tile (then
// taken by columns: its rows are summed over). Groups of their own, not waited for.
template <class Element, int D>
__device__ __forceinline__ void multiply_columns(float (&sum)[D / 8][4], const Fragment (&left)[4],
                                                 uint64_t right, bool keep = true) {
#pragma unroll
  for (int k = 0; k < 4; ++k)
    multiply_registers<Element>(sum, left[k], sixteen_rows(right, k), keep || k != 0);
  commit_group();
}
template <class Element, int D>
__device__ __forceinline__ void multiply_columns(float (&sum)[D / 8][4], uint64_t left, uint64_t right) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    multiply_shared<Element, true, true>(sum, sixteen_rows(left, k), sixteen_rows(right, k), 1);
  }
  commit_group();
}

__device__ __forceinline__ void store_matrices(uint32_t address, const Fragment& f) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(f.part[0]), "r"(f.part[1]), "r"(f.part[2]), "r"(f.part[3])
               : "memory");
}

// A warp's sixteen rows of a 64 x 64 tile, as four fragments, to shared memory.
__device__ __forceinline__ void store_rows(uint32_t tile, const Fragment (&rows)[4]) {
  const int lane = threadIdx.x & 31, row = (threadIdx.x / 32 % 4) * 16 + (lane & 15);
#pragma unroll
  for (int n = 0; n < 4; ++n) store_matrices(tile + panel_offset(row, n * 2 + (lane >> 4)), rows[n]);
}

// A warp's own sixteen rows of sum[64 x 64] = left . right^T, without the rest of its group.
template <class Element, int D>
__device__ __forceinline__ void multiply_rows_alone(float (&sum)[8][4], uint32_t left, uint32_t right) {
  const int lane = threadIdx.x & 31, row = (threadIdx.x / 32 % 4) * 16 + (lane & 15);
#pragma unroll
  for (int n = 0; n < 8; ++n) sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0;
#pragma unroll 1
  for (int k = 0; k < D / 16; ++k) {
    const Fragment a = load_matrices(left + panel_offset(row, k * 2 + (lane >> 4)));
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      const int key = n * 8 + (lane & 7) + (lane >> 4 << 3);
      const Fragment b = load_matrices(right + panel_offset(key, k * 2 + (lane >> 3 & 1)));
      multiply_add<Element>(sum[n], a, b.part[0], b.part[1]);
      multiply_add<Element>(sum[n + 1], a, b.part[2], b.part[3]);
    }
  }
}

}  // namespace openwork::cuda
