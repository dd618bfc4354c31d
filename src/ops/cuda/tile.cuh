// Tiles of rows in shared memory and the tensor core products over them (mma m16n8k16, sums in float32).
// A row of d elements is stored d + 8 apart: 16 bytes more than a multiple of 32, so that the eight rows an
// ldmatrix reads at once fall into different banks for every head size.
// In which order a tile stores its rows, and which of them a lane then has, is in layout.h.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "ops/cuda/layout.h"

namespace openwork::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffu;

// This thread's warp, as a number that the compiler knows to be the same in all its lanes: what follows from it then
// takes the registers that lanes share.
__device__ __forceinline__ int own_warp() {
  return __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x) / 32, 0);
}

template <int D>
inline constexpr int kPitch = D + 8;  // elements from one row of a tile to the next

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Sixteen bytes to shared memory without passing through registers; zeros where not `present`.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool present) {
  const int bytes = present ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void copy_async(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;");
}
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group 0;");
}

// Starts copying rows first .. first+kRows-1 into a tile; rows from `end` on are zeros.
template <class Element, int D, int kRows, int kThreads, Order order>
__device__ __forceinline__ void load_tile(uint32_t tile, const Element* rows, int64_t stride, int first,
                                          int end) {
  constexpr int kChunks = D / 8;
#pragma unroll
  for (int start = 0; start < kRows * kChunks; start += kThreads) {
    const int index = start + threadIdx.x;
    if (kRows * kChunks % kThreads != 0 && index >= kRows * kChunks) break;
    const int row = index / kChunks, chunk = index % kChunks;
    const bool present = first + row < end;
    const Element* from = rows + (present ? (first + row) * stride + chunk * 8 : 0);
    copy_async(tile + (place_row<order>(row) * kPitch<D> + chunk * 8) * 2, from, present);
  }
}

// The same for tiles that are walked over, first = 0, kRows, 2 kRows, ...: where a thread's pieces lie is
// worked out once. Its pieces of a tile are kStepRows rows apart, and so (layout.h) are their places.
template <class Element, int D, int kRows, int kThreads, Order order>
struct TileLoader {
  static constexpr int kChunks = D / 8;
  static constexpr bool kEven = kThreads % kChunks == 0 && kRows * kChunks % kThreads == 0;
  static constexpr int kStepRows = kEven ? kThreads / kChunks : 1;

  const Element* from;  // this thread's first piece of tile 0
  const Element* rows;
  int64_t stride;
  int row, end;
  uint32_t to;

  __device__ __forceinline__ TileLoader(const Element* rows, int64_t stride, int end)
      : rows(rows), stride(stride), row(threadIdx.x / kChunks), end(end) {
    const int chunk = threadIdx.x % kChunks;
    from = rows + row * stride + chunk * 8;
    to = (place_row<order>(row) * kPitch<D> + chunk * 8) * 2;
  }

  __device__ __forceinline__ void load(uint32_t tile, int first) const {
    if (!kEven || first + kRows > end) {
      load_tile<Element, D, kRows, kThreads, order>(tile, rows, stride, first, end);
      return;
    }
    const Element* piece = from + first * stride;
#pragma unroll
    for (int step = 0; step < kRows; step += kStepRows, piece += kStepRows * stride) {
      copy_async(tile + to + place_row<order>(step) * kPitch<D> * 2, piece);
    }
  }
};

// Four 8 x 8 matrices, or one 16 x 16 operand.
struct Fragment {
  uint32_t part[4];
};

__device__ __forceinline__ Fragment load_matrices(uint32_t address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.part[0]), "=r"(f.part[1]), "=r"(f.part[2]), "=r"(f.part[3])
               : "r"(address));
  return f;
}
__device__ __forceinline__ Fragment load_matrices_transposed(uint32_t address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.part[0]), "=r"(f.part[1]), "=r"(f.part[2]), "=r"(f.part[3])
               : "r"(address));
  return f;
}

// The address a lane hands to ldmatrix: as a left operand (16 rows) or transposed right one (16 rows), and as
// a right operand by rows (its two 8-row halves one after the other).
template <int D>
__device__ __forceinline__ uint32_t left_address(uint32_t tile, int lane) {
  return tile + ((lane & 15) * kPitch<D> + (lane >> 4) * 8) * 2;
}
template <int D>
__device__ __forceinline__ uint32_t right_address(uint32_t tile, int lane) {
  return tile + (((lane & 7) + (lane >> 4 << 3)) * kPitch<D> + (lane >> 3 & 1) * 8) * 2;
}

template <class Element>
__device__ __forceinline__ void multiply_add(float (&c)[4], const Fragment& a, uint32_t b0, uint32_t b1) {
  if constexpr (sizeof(Element) == 2 && __is_same(Element, __nv_bfloat16)) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b0), "r"(b1));
  }
}

// Two numbers rounded into one register, the first in the low half.
template <class Element>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t packed;
  if constexpr (__is_same(Element, __nv_bfloat16)) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

// Two neighbouring products (16 x 16 numbers) as a left operand.
template <class Element>
__device__ __forceinline__ Fragment pack_left(const float (&low)[4], const float (&high)[4]) {
  return {{pack<Element>(low[0], low[1]), pack<Element>(low[2], low[3]), pack<Element>(high[0], high[1]),
           pack<Element>(high[2], high[3])}};
}

// Sixteen rows of a tile as left operand: held in registers, or read again each time where d is too large.
template <int D, bool kHeld>
struct LeftRows {
  Fragment held[kHeld ? D / 16 : 1];
  uint32_t address;

  __device__ __forceinline__ void take(uint32_t tile, int lane) {
    address = left_address<D>(tile, lane);
    if constexpr (kHeld) {
#pragma unroll
      for (int k = 0; k < D / 16; ++k) held[k] = load_matrices(address + k * 32);
    }
  }
  __device__ __forceinline__ Fragment part(int k) const {
    if constexpr (kHeld) return held[k];
    return load_matrices(address + k * 32);
  }
};

// sum[16 x 8 kTiles] = left[16 x D] . rows[8 kTiles x D]^T
template <class Element, int D, int kTiles, class Left>
__device__ __forceinline__ void multiply_by_rows(float (&sum)[kTiles][4], const Left& left, uint32_t rows) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    const Fragment a = left.part(k);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      const Fragment b = load_matrices(rows + (n * 8 * kPitch<D> + k * 16) * 2);
      multiply_add<Element>(sum[n], a, b.part[0], b.part[1]);
      multiply_add<Element>(sum[n + 1], a, b.part[2], b.part[3]);
    }
  }
}

// sum[16 x D] += left[16 x 16] . rows[16 x D]
template <class Element, int D>
__device__ __forceinline__ void multiply_by_columns(float (&sum)[D / 8][4], const Fragment& left,
                                                    uint32_t rows) {
#pragma unroll
  for (int n = 0; n < D / 8; n += 2) {
    const Fragment b = load_matrices_transposed(rows + n * 16);
    multiply_add<Element>(sum[n], left, b.part[0], b.part[1]);
    multiply_add<Element>(sum[n + 1], left, b.part[2], b.part[3]);
  }
}

// The same rows for two left operands at once.
template <class Element, int D>
__device__ __forceinline__ void multiply_by_columns(float (&sum)[D / 8][4], const Fragment& left,
                                                    float (&other_sum)[D / 8][4], const Fragment& other_left,
                                                    uint32_t rows) {
#pragma unroll
  for (int n = 0; n < D / 8; n += 2) {
    const Fragment b = load_matrices_transposed(rows + n * 16);
    multiply_add<Element>(sum[n], left, b.part[0], b.part[1]);
    multiply_add<Element>(sum[n + 1], left, b.part[2], b.part[3]);
    multiply_add<Element>(other_sum[n], other_left, b.part[0], b.part[1]);
    multiply_add<Element>(other_sum[n + 1], other_left, b.part[2], b.part[3]);
  }
}

// Writes a warp's 16 x D sums, each row times its factor, through its own sixteen rows of a tile so that
// global memory sees whole 16-byte pieces. Lane g's two rows are rows `low` and `high` of the sixteen; where
// they go `gap` rows are left out after every four.
template <class Element, int D>
__device__ __forceinline__ void store_sums(Element* tile, const float (&sum)[D / 8][4], int low, int high,
                                           float low_factor, float high_factor, Element* rows, int64_t stride,
                                           int first, int end, int gap = 0) {
  const int lane = threadIdx.x & 31;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    const int column = n * 8 + (lane & 3) * 2;
    *reinterpret_cast<uint32_t*>(tile + low * kPitch<D> + column) =
        pack<Element>(sum[n][0] * low_factor, sum[n][1] * low_factor);
    *reinterpret_cast<uint32_t*>(tile + high * kPitch<D> + column) =
        pack<Element>(sum[n][2] * high_factor, sum[n][3] * high_factor);
  }
  __syncwarp();
  constexpr int kChunks = D / 8;
#pragma unroll
  for (int start = 0; start < 16 * kChunks; start += 32) {
    const int index = start + lane, row = index / kChunks, chunk = index % kChunks;
    const int to = first + row + row / 4 * gap;
    if (to < end) {
      *reinterpret_cast<uint4*>(rows + to * stride + chunk * 8) =
          *reinterpret_cast<const uint4*>(tile + row * kPitch<D> + chunk * 8);
    }
  }
}

}  // namespace openwork::cuda
