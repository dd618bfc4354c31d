// Hopper's copy engine (bulk tensor copies): one thread asks for a whole box of a tensor, and a barrier in shared memory
// tells all others that it is there.
#pragma once
#include "ops/cuda/launch.h"
#include "ops/cuda/tile.cuh"

namespace openwork::cuda {

// A barrier of eight bytes. Its phases count from 0: one is over when a thread has announced bytes and all of them have
// come; parity is the phase's last bit.
__device__ __forceinline__ void make_barrier(uint32_t barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
// After make_barrier, before the __syncthreads that shows it to others.
__device__ __forceinline__ void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void announce(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void wait_for_phase(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void fetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// Rows first .. first + 63 of a head, into a tile of panels; `barrier` sees kPanelTileBytes<D> arrive.
template <int D>
__device__ __forceinline__ void copy_box(uint32_t tile, const TensorMap& map, int b, int h, int first,
                                         uint32_t barrier) {
#pragma unroll
  for (int column = 0; column < D; column += 64) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
        "%3, %4, %5}], [%6];" ::"r"(tile + column / 64 * (kGroupRows * 128)),
        "l"(&map), "r"(column), "r"(first), "r"(h), "r"(b), "r"(barrier)
        : "memory");
  }
}

}  // namespace openwork::cuda
