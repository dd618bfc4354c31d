// The GPU side of ops/append_tokens.h: takes tensors apart for the kernel (append.cu).
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <limits>

#include "ops/cuda/append.h"
#include "ops/cuda/tensors.h"

namespace openwork {
namespace {

using at::Tensor;

Tensor with_contiguous_heads(const Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

// x [B, T, heads, d].
cuda::Rows rows_by_token(const Tensor& x) {
  return {const_cast<void*>(x.const_data_ptr()), x.stride(0), x.stride(2), x.stride(1)};
}

// Of a cache [B, G, capacity, d], from token `at` on.
cuda::Rows rows_of_cache(Tensor& cache, int64_t at) {
  auto* const data = static_cast<char*>(cache.mutable_data_ptr());
  return {data + at * cache.stride(2) * cache.element_size(), cache.stride(0), cache.stride(1),
          cache.stride(2)};
}

// Shapes were checked in ops/append_tokens.cpp; the tables are here.
Tensor append_on_gpu(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                     const std::optional<Tensor>& cosine, const std::optional<Tensor>& sine, Tensor& keys,
                     Tensor& values, int64_t at) {
  const c10::cuda::CUDAGuard guard(q_in.device());
  cuda::Append call;
  call.element = element_of(q_in, "append_tokens");
  const Tensor q = with_contiguous_heads(q_in), k = with_contiguous_heads(k_in),
               v = with_contiguous_heads(v_in);
  const Tensor out = at::empty(q.sizes(), q.options());
  TORCH_CHECK(q.numel() + 2 * k.numel() <= std::numeric_limits<int>::max(), "append_tokens: q has shape ",
              q.sizes(), "; fewer tokens are wanted: split the batch");
  if (q.numel() == 0) return out;
  call.B = static_cast<int>(q.size(0)), call.T = static_cast<int>(q.size(1));
  call.H = static_cast<int>(q.size(2)), call.key_heads = static_cast<int>(k.size(2));
  call.d = static_cast<int>(q.size(3));
  if (cosine && sine) {
    TORCH_CHECK(cosine->scalar_type() == q.scalar_type() && sine->scalar_type() == q.scalar_type() &&
                    cosine->is_contiguous() && sine->is_contiguous() && sine->sizes() == cosine->sizes() &&
                    cosine->size(0) == q.size(1) && 2 * cosine->size(1) <= q.size(3),
                "append_tokens: tables of ", cosine->sizes(), " do not fit q of ", q.sizes());
    call.half = static_cast<int>(cosine->size(1));
    call.cosine = cosine->const_data_ptr(), call.sine = sine->const_data_ptr();
  }
  call.q = rows_by_token(q), call.k = rows_by_token(k), call.v = rows_by_token(v);
  call.out = rows_by_token(out);
  call.keys = rows_of_cache(keys, at), call.values = rows_of_cache(values, at);
  C10_CUDA_CHECK(cuda::launch_append(call, stream_of(q)));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, CUDA, library) {
  library.impl("append_tokens", append_on_gpu);
}

}  // namespace openwork
