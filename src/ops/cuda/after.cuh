// Kernels of one pass that start before the one they follow has ended (Hopper's programmatic dependent launches): what
// does not depend on it, a block's first copies, is done while the last blocks of the kernel before run out.
//   start_next_kernel()  in the first kernel: the next one may start once every block of this has come here
//   await_last_kernel()  in the next one, before it reads or writes anything the first one writes or reads
//   launch_after(...)    starts the next one. The first one must have been started in the plain way, or itself wait before
//                        it reads what was there before: then all older work is done when this one starts
#pragma once
#include <cuda_runtime.h>

namespace openwork::cuda {

__device__ __forceinline__ void start_next_kernel() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void await_last_kernel() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <class Arguments>
cudaError_t launch_after(void (*kernel)(Arguments), unsigned blocks, int threads, int shared_bytes,
                         cudaStream_t stream, const Arguments& arguments) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments);
}

}  // namespace openwork::cuda
