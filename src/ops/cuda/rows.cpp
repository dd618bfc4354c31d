// The GPU side of ops/norm.h and ops/linear.h: takes tensors apart for the kernels (rows.cu).
#include "ops/cuda/rows.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/cuda/tensors.h"
#include "ops/fused_kernels.h"

namespace openwork {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

const void* data_of(const MaybeTensor& x) {
  return x ? x->const_data_ptr() : nullptr;
}

int count_multiprocessors(const Tensor& x) {
  int count = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, x.get_device()));
  return count;
}

void check_rows(const Tensor& x, std::initializer_list<const MaybeTensor*> others, const char* op) {
  TORCH_CHECK(has_whole_rows(x), op, ": rows of ", x.sizes(), " cannot be read in vectors");
  for (const MaybeTensor* other : others) {
    TORCH_CHECK(!*other || (has_whole_rows(**other) && (*other)->scalar_type() == x.scalar_type() &&
                            (*other)->size(-1) == x.size(-1)),
                op, ": ", (*other)->sizes(), " does not fit rows of ", x.sizes());
  }
}

std::tuple<Tensor, Tensor, Tensor, Tensor> normalise_rows(const Tensor& x, const MaybeTensor& added,
                                                          const MaybeTensor& weight, const MaybeTensor& bias,
                                                          double epsilon, bool centred) {
  check_rows(x, {&added, &weight, &bias}, "normalise_rows");
  TORCH_CHECK(x.size(-1) * x.element_size() <= cuda::kMostNormBytes, "normalise_rows: rows of ", x.size(-1),
              " numbers are too long");
  TORCH_CHECK(centred || !bias, "normalise_rows: an RMS norm has no bias");
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t d = x.size(-1), rows = x.numel() / d;
  const auto floats = x.options().dtype(at::kFloat);
  Tensor sum = added ? at::empty_like(x) : at::empty({0}, x.options()), normal = at::empty_like(x),
         mean = at::empty({rows}, floats), scale = at::empty({rows}, floats);
  cuda::Norm arguments{element_of(x, "normalise_rows"), rows, static_cast<int>(d), centred,
                       static_cast<float>(epsilon)};
  arguments.x = x.const_data_ptr(), arguments.added = data_of(added);
  arguments.weight = data_of(weight), arguments.bias = data_of(bias);
  arguments.sum = sum.mutable_data_ptr(), arguments.normal = normal.mutable_data_ptr();
  arguments.mean = mean.mutable_data_ptr<float>(), arguments.scale = scale.mutable_data_ptr<float>();
  C10_CUDA_CHECK(cuda::launch_norm(arguments, stream_of(x)));
  return {sum, normal, mean, scale};
}

// A gradient that the kernels write or add to, [d].
void* sum_of(const MaybeTensor& sum, const Tensor& rows, const char* op) {
  if (!sum) return nullptr;
  TORCH_CHECK(sum->is_contiguous() && sum->numel() == rows.size(-1) &&
                  sum->scalar_type() == rows.scalar_type() && sum->device() == rows.device(),
              op, ": a gradient of ", sum->sizes(), " does not fit rows of ", rows.sizes());
  return sum->mutable_data_ptr();
}

Tensor normalise_rows_backward(const Tensor& grad_normal, const MaybeTensor& grad_sum, const Tensor& sum,
                               const Tensor& mean, const Tensor& scale, const MaybeTensor& weight,
                               bool centred, const MaybeTensor& grad_weight, const MaybeTensor& grad_bias,
                               bool adds) {
  constexpr const char* kOp = "normalise_rows_backward";
  check_rows(sum, {&grad_sum, &weight}, kOp);
  check_rows(grad_normal, {}, kOp);
  const c10::cuda::CUDAGuard guard(sum.device());
  const int64_t d = sum.size(-1), rows = sum.numel() / d;
  cuda::NormBackward arguments{element_of(sum, "normalise_rows"), rows, static_cast<int>(d), centred};
  arguments.blocks = cuda::norm_blocks(arguments, count_multiprocessors(sum));
  const auto parts = [&](const MaybeTensor& of) {
    return at::empty({of ? arguments.blocks : 0, d}, sum.options().dtype(at::kFloat));
  };
  Tensor grad_x = at::empty_like(sum), weight_parts = parts(grad_weight), bias_parts = parts(grad_bias);
  arguments.sum = sum.const_data_ptr(), arguments.weight = data_of(weight);
  arguments.grad_normal = grad_normal.const_data_ptr(), arguments.grad_sum = data_of(grad_sum);
  arguments.mean = mean.const_data_ptr<float>(), arguments.scale = scale.const_data_ptr<float>();
  arguments.grad_x = grad_x.mutable_data_ptr();
  arguments.grad_weight = sum_of(grad_weight, sum, kOp), arguments.grad_bias = sum_of(grad_bias, sum, kOp);
  arguments.adds = adds;
  arguments.weight_parts = weight_parts.mutable_data_ptr<float>();
  arguments.bias_parts = bias_parts.mutable_data_ptr<float>();
  C10_CUDA_CHECK(cuda::launch_norm_backward(arguments, stream_of(sum)));
  return grad_x;
}

// Blocks enough for a few rounds of every multiprocessor, but each with rows to walk.
void sum_rows(const Tensor& x, const Tensor& sum, bool adds) {
  check_rows(x, {}, "sum_rows");
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t d = x.size(-1), rows = x.numel() / d;
  cuda::ColumnSum arguments{element_of(x, "sum_rows"), rows, static_cast<int>(d)};
  const int64_t columns = 32 * 16 / x.element_size(), across = (d + columns - 1) / columns;
  const int64_t blocks = 8 * count_multiprocessors(x) / across;
  arguments.blocks = static_cast<int>(std::clamp<int64_t>(blocks, 1, (rows + 31) / 32));
  Tensor parts = at::empty({arguments.blocks, d}, x.options().dtype(at::kFloat));
  arguments.x = x.const_data_ptr();
  arguments.parts = parts.mutable_data_ptr<float>();
  arguments.out = sum_of(sum, x, "sum_rows");
  arguments.adds = adds;
  C10_CUDA_CHECK(cuda::launch_column_sum(arguments, stream_of(x)));
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, CUDA, library) {
  library.impl("normalise_rows", normalise_rows);
  library.impl("normalise_rows_backward", normalise_rows_backward);
  library.impl("sum_rows", sum_rows);
}

}  // namespace openwork
