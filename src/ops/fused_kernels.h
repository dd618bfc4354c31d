// How operators find the GPU's kernels (cuda/fused.cpp, cuda/rows.cpp), which are a library of their own.
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

// Contiguous rows that vectors of 16 bytes cover from the first number to the last.
inline bool has_whole_rows(const at::Tensor& x) {
  constexpr size_t kVector = 16;
  return x.dim() > 0 && x.is_contiguous() && reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kVector == 0 &&
         static_cast<size_t>(x.size(-1)) * x.element_size() % kVector == 0;
}
inline at::Tensor as_whole_rows(const at::Tensor& x) {
  return has_whole_rows(x) ? x : x.clone(at::MemoryFormat::Contiguous);
}

}  // namespace openwork
