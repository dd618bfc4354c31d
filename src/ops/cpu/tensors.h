// Tensors as the CPU kernels want them, and work shared over threads.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <atomic>

#include "ops/cpu/kernel.h"
#include "ops/threads.h"

namespace openwork {

// What a step of generation has at most, one for each text: above it ATen's blocked products read each weight once for
// all rows, and its calls between them are not what takes time.
inline constexpr int64_t kFewTokens = 8;

// What the kernels of such a step take.
inline bool is_single_or_half(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf;
}

inline cpu::Element element_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return cpu::Element::kDouble;
    case at::kBFloat16:
      return cpu::Element::kBFloat16;
    case at::kHalf:
      return cpu::Element::kHalf;
    default:
      return cpu::Element::kFloat;
  }
}

// The kernels read rows of contiguous elements; any other strides they take as they are.
inline at::Tensor with_contiguous_rows(const at::Tensor& tensor) {
  return tensor.stride(-1) == 1 || tensor.size(-1) == 1 ? tensor : tensor.contiguous();
}

inline cpu::View view_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

// Calls work(task, workspace) for every task, each thread taking the next one when it is done with its last
// and keeping one workspace.
template <typename Work>
void for_each_task(int64_t tasks, size_t workspace_bytes, const Work& work) {
  std::atomic<int64_t> next{0};
  const int64_t threads = std::min<int64_t>(tasks, at::get_num_threads());
  share_range(threads, 1, [&](int64_t, int64_t) {
    const at::Tensor workspace =
        workspace_bytes ? at::empty({static_cast<int64_t>(workspace_bytes)}, at::kByte) : at::Tensor();
    void* const room = workspace_bytes ? workspace.mutable_data_ptr() : nullptr;
    for (int64_t task = next++; task < tasks; task = next++) work(task, room);
  });
}

}  // namespace openwork
