// How operators find the GPU's kernels (cuda/fused.cpp), which are a library of their own.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace openwork {

template <typename Signature>
auto find_kernel(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// The kernels take what training uses; the rest goes through ATen.
bool has_kernel(const at::Tensor& x);

}  // namespace openwork
