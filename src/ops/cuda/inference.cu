// Hard gates and z alone, of queries that stand at the end of K keys: a step of generation, which launches decide, and
// float32 prompts. In three phases, for one query or for eight neighbouring ones together:
//   1. scores; a key's row is read by neighbouring lanes, eight numbers each
//   2. the row's log-sum-exp, and from it the border above which its gates are open
//   3. P v over open keys: values behind closed gates are never read
// Up to kShortCache keys that is one kernel, its scores in shared memory. Behind more, one query's block would leave
// most of the GPU idle: phase 1 is then a kernel of its own, a block for every kChunkKeys keys, and 2 and 3 another.
#include "ops/cuda/inference.cuh"

namespace openwork::cuda {
namespace {

constexpr int kOneQueryWarps = 16;  // of the block of one query
constexpr int kChunkWarps = 8;

// One block for kQueries queries of a head: kWarps / kQueries warps to a query.
template <class Number, int kQueries, int kWarps>
__global__ void __launch_bounds__(kWarps * 32) short_kernel(const __grid_constant__ Inference a) {
  constexpr int kRowWarps = kWarps / kQueries;
  extern __shared__ float scores[];  // [kQueries, K]
  __shared__ float sums[kWarps][kLargestSize], exchange[kWarps];
  const int parts = (a.T + kQueries - 1) / kQueries;
  const int part = parts - 1 - blockIdx.x % parts;  // a head's longest rows first
  const Place place = find_place(a, blockIdx.x / parts, part * kQueries);
  if (is_closed<Number>(a, place.h)) return write_zeros<Number, kQueries>(a, place);
  const int keys = min(a.K, place.first + kQueries + a.K - a.T);  // that the last of the queries sees
  find_scores<Number, kQueries, kWarps>(a, place, 0, keys, scores, a.K);
  __syncthreads();
  const int r = threadIdx.x / 32 / kRowWarps;
  const float* own = scores + r * a.K;
  const float log_sum_exp2 = find_log_sum_exp2<kRowWarps>(own, keys, exchange);
  const RowGate gate = gate_of_row<Number>(a, place.h, log_sum_exp2);
  add_values<Number, kRowWarps>(a, place, place.first + r, own, keys, gate, sums);
}

// Scores of one query and kChunkKeys keys, with their largest and the sum over it.
template <class Number>
__global__ void __launch_bounds__(kChunkWarps * 32) chunk_kernel(const __grid_constant__ Inference a) {
  __shared__ float scores[kChunkKeys], exchange[kChunkWarps];
  const int chunks = count_chunks(a.K), chunk = blockIdx.x % chunks;
  const int64_t row = blockIdx.x / chunks;  // of B H T
  const Place place = find_place(a, static_cast<int>(row / a.T), static_cast<int>(row % a.T));
  if (is_closed<Number>(a, place.h)) return;
  const int from = chunk * kChunkKeys, to = min(a.K, from + kChunkKeys);
  find_scores<Number, 1, kChunkWarps>(a, place, from, to, scores, kChunkKeys);
  __syncthreads();
  float largest2 = kLowest2, sum = 0;
  for (int n = threadIdx.x; n < to - from; n += kChunkWarps * 32) {
    largest2 = fmaxf(largest2, scores[n]);
    a.scores[row * a.K + from + n] = scores[n];
  }
  largest2 = join_row<kChunkWarps>(largest2, exchange, Larger{});
  for (int n = threadIdx.x; n < to - from; n += kChunkWarps * 32) {
    // Of a chunk that the query does not see nothing may count.
    if (scores[n] > kLowest2) sum += exp2f(scores[n] - largest2);
  }
  sum = join_row<kChunkWarps>(sum, exchange, Sum{});
  if (threadIdx.x == 0)
    a.chunk_largest[row * chunks + chunk] = largest2, a.chunk_sums[row * chunks + chunk] = sum;
}

// Phases 2 and 3 of one query, from what the chunks left.
template <class Number>
__global__ void __launch_bounds__(kOneQueryWarps * 32) row_kernel(const __grid_constant__ Inference a) {
  __shared__ float sums[kOneQueryWarps][kLargestSize], exchange[kOneQueryWarps];
  const int chunks = count_chunks(a.K);
  const int64_t row = blockIdx.x;
  const Place place = find_place(a, static_cast<int>(row / a.T), static_cast<int>(row % a.T));
  if (is_closed<Number>(a, place.h)) return write_zeros<Number, 1>(a, place);
  float largest2 = kLowest2, sum = 0;
  for (int n = threadIdx.x; n < chunks; n += kOneQueryWarps * 32)
    largest2 = fmaxf(largest2, a.chunk_largest[row * chunks + n]);
  largest2 = join_row<kOneQueryWarps>(largest2, exchange, Larger{});
  for (int n = threadIdx.x; n < chunks; n += kOneQueryWarps * 32)
    sum += a.chunk_sums[row * chunks + n] * exp2f(a.chunk_largest[row * chunks + n] - largest2);
  const float log_sum_exp2 = largest2 + log2f(join_row<kOneQueryWarps>(sum, exchange, Sum{}));
  const RowGate gate = gate_of_row<Number>(a, place.h, log_sum_exp2);
  add_values<Number, kOneQueryWarps>(a, place, place.first, a.scores + row * a.K, place.first + 1 + a.K - a.T,
                                     gate, sums);
}

template <class Number, int kQueries, int kWarps>
cudaError_t launch_short(const Inference& a, cudaStream_t stream) {
  const auto kernel = short_kernel<Number, kQueries, kWarps>;
  const int bytes = kQueries * a.K * static_cast<int>(sizeof(float));
  if (bytes > 16 * 1024) {  // with what the kernel has besides it may pass what a block gets unasked
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
  }
  const unsigned parts = static_cast<unsigned>((a.T + kQueries - 1) / kQueries);
  kernel<<<parts * a.B * a.H, kWarps * 32, bytes, stream>>>(a);
  return cudaGetLastError();
}

template <class Number>
cudaError_t launch_short_of(const Inference& a, cudaStream_t stream) {
  return a.T < kQueryBlock ? launch_short<Number, 1, kOneQueryWarps>(a, stream)
                           : launch_short<Number, kQueryBlock, kQueryBlock>(a, stream);
}

template <class Number>
cudaError_t launch_long_of(const Inference& a, cudaStream_t stream) {
  const unsigned rows = static_cast<unsigned>(a.B) * a.H * a.T;
  chunk_kernel<Number><<<rows * count_chunks(a.K), kChunkWarps * 32, 0, stream>>>(a);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  row_kernel<Number><<<rows, kOneQueryWarps * 32, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_short_inference(const Inference& a, cudaStream_t stream) {
  if (a.element == Element::kFloat32) return launch_short_of<float>(a, stream);
  return a.element == Element::kFloat16 ? launch_short_of<__half>(a, stream)
                                        : launch_short_of<__nv_bfloat16>(a, stream);
}

cudaError_t launch_long_inference(const Inference& a, cudaStream_t stream) {
  if (a.element == Element::kFloat32) return launch_long_of<float>(a, stream);
  return a.element == Element::kFloat16 ? launch_long_of<__half>(a, stream)
                                        : launch_long_of<__nv_bfloat16>(a, stream);
}

}  // namespace openwork::cuda
