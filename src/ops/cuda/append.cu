// q turned, k turned into the cache, v into the cache: one pass over a step's numbers, float32 arithmetic, one rounding
// at the end, as rotate_kernel of fused.cu turns them.
#include "ops/cuda/append.h"

#include "ops/cuda/vector.cuh"

namespace openwork::cuda {
namespace {

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
  auto second = load<Number, N>(from + a.half + place);
  if (place < a.half) {
    auto first = load<Number, N>(from + place);
    if (!is_value) {
      const int64_t at = static_cast<int64_t>(token) * a.half + place;
      const auto cosine = load<Number, N>(static_cast<const Number*>(a.cosine) + at);
      const auto sine = load<Number, N>(static_cast<const Number*>(a.sine) + at);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float c = wide(cosine.at[n]), s = wide(sine.at[n]);
        const float x1 = wide(first.at[n]), x2 = wide(second.at[n]);
        first.at[n] = narrow<Number>(x1 * c - x2 * s);
        second.at[n] = narrow<Number>(x2 * c + x1 * s);
      }
    }
    store<Number, N>(to + place, first);
  }
  store<Number, N>(to + a.half + place, second);
}

template <class Number, int N>
void launch_append_of(const Append& a, cudaStream_t stream) {
  const int64_t work = static_cast<int64_t>(a.B) * a.T * (a.H + 2 * a.key_heads) * ((a.d - a.half) / N);
  append_kernel<Number, N><<<blocks_for(work), kThreads, 0, stream>>>(a);
}

template <class Number>
void launch_append_of(const Append& a, cudaStream_t stream) {
  bool whole = a.half % 4 == 0 && a.d % 4 == 0;
  for (const Rows* rows : {&a.q, &a.k, &a.v, &a.out, &a.keys, &a.values}) {
    whole &= aligned(rows->data, 4 * sizeof(Number));
    for (const int64_t stride : {rows->batch, rows->head, rows->row}) whole &= stride % 4 == 0;
  }
  for (const void* table : {a.cosine, a.sine}) whole &= aligned(table, 4 * sizeof(Number));
  return whole ? launch_append_of<Number, 4>(a, stream) : launch_append_of<Number, 1>(a, stream);
}

}  // namespace

cudaError_t launch_append(const Append& a, cudaStream_t stream) {
  return with_element(a.element, [&](auto number) { launch_append_of<decltype(number)>(a, stream); });
}

}  // namespace openwork::cuda
