// Several numbers of a row read and written at once, and the way from an element known at run time to a kernel of it.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ops/cuda/launch.h"

namespace openwork::cuda {

template <typename E, int N>
struct alignas(sizeof(E) * N) Vector {
  E at[N];
};

__device__ inline float wide(float x) {
  return x;
}
__device__ inline float wide(__half x) {
  return __half2float(x);
}
__device__ inline float wide(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
template <typename E>
__device__ E narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

template <typename E, int N>
__device__ Vector<E, N> load(const E* from) {
  return *reinterpret_cast<const Vector<E, N>*>(from);
}
template <typename E, int N>
__device__ void store(E* to, const Vector<E, N>& vector) {
  *reinterpret_cast<Vector<E, N>*>(to) = vector;
}

// Calls `launch` with a value of the element's type.
template <typename Launch>
cudaError_t with_element(Element element, Launch launch) {
  if (element == Element::kFloat32) launch(float{});
  if (element == Element::kFloat16) launch(__half{});
  if (element == Element::kBFloat16) launch(__nv_bfloat16{});
  return cudaGetLastError();
}

inline constexpr int kThreads = 256;  // of a block that goes over numbers one by one

inline unsigned blocks_for(int64_t work) {
  return static_cast<unsigned>((work + kThreads - 1) / kThreads);
}

inline bool aligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

}  // namespace openwork::cuda
