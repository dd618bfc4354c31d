// What the sources that take tensors apart for the kernels share.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "ops/cuda/launch.h"

namespace openwork {

// The kernels' name for x's dtype; `op` is named where they have none.
inline cuda::Element element_of(const at::Tensor& x, const char* op) {
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, op, ": dtype ", type,
              " on a GPU; float32, bfloat16 or float16 is wanted there (float64 runs on the CPU)");
  if (type == at::kFloat) return cuda::Element::kFloat32;
  return type == at::kHalf ? cuda::Element::kFloat16 : cuda::Element::kBFloat16;
}

inline cudaStream_t stream_of(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.get_device()).stream();
}

// Of [batch, head, token, d], d contiguous.
inline cuda::Rows rows_of(const at::Tensor& x) {
  return {const_cast<void*>(x.const_data_ptr()), x.stride(0), x.stride(1), x.stride(2)};
}

inline int compute_major(int device) {
  int major = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major;
}

}  // namespace openwork
