// q turned, k turned into the cache, v into the cache: one pass over a step's numbers, float32 arithmetic, one rounding
// at the end, as rotate_kernel of fused.cu turns them.
#include "ops/cuda/append.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace openwork::cuda {
namespace {

constexpr int kAppendThreads = 256;

template <class Number, int N>
struct alignas(sizeof(Number) * N) Pack {
  Number at[N];
};
template <class Number, int N>
__device__ Pack<Number, N> load_pack(const Number* from) {
  return *reinterpret_cast<const Pack<Number, N>*>(from);
}
template <class Number, int N>
__device__ void store_pack(Number* to, const Pack<Number, N>& pack) {
  *reinterpret_cast<Pack<Number, N>*>(to) = pack;
}

template <class Number>
__device__ Number* row_of(const Rows& rows, int b, int token, int head) {
  return static_cast<Number*>(rows.data) + b * rows.batch + token * rows.row + head * rows.head;
}

// One thread has N pairs of a head's row, or N numbers beyond the turned part. Heads are q's, then k's, then v's.
template <class Number, int N>
__global__ void append_kernel(const __grid_constant__ Append a) {
  const int units = (a.d - a.half) / N, heads = a.H + 2 * a.key_heads;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = index / units;
  if (row >= static_cast<int64_t>(a.B) * a.T * heads) return;
  const int place = static_cast<int>(index % units) * N;
  const int head = static_cast<int>(row % heads), token = static_cast<int>(row / heads % a.T);
  const int b = static_cast<int>(row / heads / a.T);
  const bool is_query = head < a.H, is_value = head >= a.H + a.key_heads;
  const int own = is_query ? head : is_value ? head - a.H - a.key_heads : head - a.H;
  const Number* from = row_of<const Number>(is_query ? a.q : is_value ? a.v : a.k, b, token, own);
  Number* to = row_of<Number>(is_query ? a.out : is_value ? a.values : a.keys, b, token, own);
  auto second = load_pack<Number, N>(from + a.half + place);
  if (place < a.half) {
    auto first = load_pack<Number, N>(from + place);
    if (!is_value) {
      const int64_t at = static_cast<int64_t>(token) * a.half + place;
      const auto cosine = load_pack<Number, N>(static_cast<const Number*>(a.cosine) + at);
      const auto sine = load_pack<Number, N>(static_cast<const Number*>(a.sine) + at);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float c = static_cast<float>(cosine.at[n]), s = static_cast<float>(sine.at[n]);
        const float x1 = static_cast<float>(first.at[n]), x2 = static_cast<float>(second.at[n]);
        first.at[n] = static_cast<Number>(x1 * c - x2 * s);
        second.at[n] = static_cast<Number>(x2 * c + x1 * s);
      }
    }
    store_pack<Number, N>(to + place, first);
  }
  store_pack<Number, N>(to + a.half + place, second);
}

template <class Number, int N>
cudaError_t launch_append_of(const Append& a, cudaStream_t stream) {
  const int64_t work = static_cast<int64_t>(a.B) * a.T * (a.H + 2 * a.key_heads) * ((a.d - a.half) / N);
  const auto blocks = static_cast<unsigned>((work + kAppendThreads - 1) / kAppendThreads);
  append_kernel<Number, N><<<blocks, kAppendThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

template <class Number>
cudaError_t launch_append_of(const Append& a, cudaStream_t stream) {
  bool whole = a.half % 4 == 0 && a.d % 4 == 0;
  for (const Rows* rows : {&a.q, &a.k, &a.v, &a.out, &a.keys, &a.values}) {
    whole &= reinterpret_cast<uintptr_t>(rows->data) % (4 * sizeof(Number)) == 0;
    for (const int64_t stride : {rows->batch, rows->head, rows->row}) whole &= stride % 4 == 0;
  }
  for (const void* table : {a.cosine, a.sine})
    whole &= reinterpret_cast<uintptr_t>(table) % (4 * sizeof(Number)) == 0;
  return whole ? launch_append_of<Number, 4>(a, stream) : launch_append_of<Number, 1>(a, stream);
}

}  // namespace

cudaError_t launch_append(const Append& a, cudaStream_t stream) {
  if (a.element == Element::kFloat32) return launch_append_of<float>(a, stream);
  return a.element == Element::kFloat16 ? launch_append_of<__half>(a, stream)
                                        : launch_append_of<__nv_bfloat16>(a, stream);
}

}  // namespace openwork::cuda
