// Rotary positions, silu(gate) * linear and cross-entropy, each one pass over its numbers: float32
// arithmetic, vectors of up to 16 bytes where addresses allow, one rounding at the end.
#include <cmath>
#include <type_traits>

#include "ops/cuda/fused.h"
#include "ops/cuda/vector.cuh"

namespace openwork::cuda {
namespace {

// One thread turns N pairs, or copies N numbers beyond the turned part.
template <typename E, int N>
__global__ void rotate_kernel(Rotation a) {
  const int units = (a.d - a.half) / N;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = index / units;
  if (row >= a.B * a.T * a.heads) return;
  const int place = static_cast<int>(index % units) * N;
  const int64_t head = row % a.heads, token = row / a.heads % a.T, batch = row / a.heads / a.T;
  const E* x =
      static_cast<const E*>(a.x) + batch * a.batch_stride + token * a.token_stride + head * a.head_stride;
  E* out = static_cast<E*>(a.out) + row * a.d;
  const auto second = load<E, N>(x + a.half + place);
  if (place >= a.half) return store<E, N>(out + a.half + place, second);
  const auto first = load<E, N>(x + place);
  const auto cosine = load<E, N>(static_cast<const E*>(a.cosine) + token * a.half + place);
  const auto sine = load<E, N>(static_cast<const E*>(a.sine) + token * a.half + place);
  Vector<E, N> turned_first, turned_second;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float c = wide(cosine.at[n]), s = a.back ? -wide(sine.at[n]) : wide(sine.at[n]);
    const float x1 = wide(first.at[n]), x2 = wide(second.at[n]);
    turned_first.at[n] = narrow<E>(x1 * c - x2 * s);
    turned_second.at[n] = narrow<E>(x2 * c + x1 * s);
  }
  store<E, N>(out + place, turned_first);
  store<E, N>(out + a.half + place, turned_second);
}

template <int N>
cudaError_t launch_rotation_of(const Rotation& a, cudaStream_t stream) {
  const unsigned blocks = blocks_for(a.B * a.T * a.heads * ((a.d - a.half) / N));
  return with_element(a.element,
                      [&](auto e) { rotate_kernel<decltype(e), N><<<blocks, kThreads, 0, stream>>>(a); });
}

__device__ float sigmoid(float x) {
  return 1.0f / (1.0f + __expf(-x));
}

template <typename E, int N>
__global__ void silu_product_kernel(SiluProduct a) {
  const int64_t place = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (place >= a.count) return;
  const auto gate = load<E, N>(static_cast<const E*>(a.gate) + place);
  const auto linear = load<E, N>(static_cast<const E*>(a.linear) + place);
  Vector<E, N> out;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float g = wide(gate.at[n]);
    out.at[n] = narrow<E>(g * sigmoid(g) * wide(linear.at[n]));
  }
  store<E, N>(static_cast<E*>(a.out) + place, out);
}

template <typename E, int N>
__global__ void silu_product_backward_kernel(SiluProduct a) {
  const int64_t place = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (place >= a.count) return;
  const auto gate = load<E, N>(static_cast<const E*>(a.gate) + place);
  const auto linear = load<E, N>(static_cast<const E*>(a.linear) + place);
  const auto grad = load<E, N>(static_cast<const E*>(a.grad) + place);
  Vector<E, N> grad_gate, grad_linear;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float g = wide(gate.at[n]), s = sigmoid(g), dy = wide(grad.at[n]);
    grad_linear.at[n] = narrow<E>(dy * g * s);
    grad_gate.at[n] = narrow<E>(dy * wide(linear.at[n]) * s * (1 + g * (1 - s)));
  }
  store<E, N>(static_cast<E*>(a.grad_gate) + place, grad_gate);
  store<E, N>(static_cast<E*>(a.grad_linear) + place, grad_linear);
}

template <typename Kernel>
cudaError_t launch_elementwise(const SiluProduct& a, Kernel kernel) {
  bool whole = a.count % 8 == 0;
  for (const void* pointer :
       {a.gate, a.linear, a.grad, static_cast<const void*>(a.out), static_cast<const void*>(a.grad_gate),
        static_cast<const void*>(a.grad_linear)}) {
    whole &= aligned(pointer, 32);
  }
  return with_element(a.element, [&](auto e) {
    if (whole) {
      kernel(e, std::integral_constant<int, 16 / sizeof(e)>{},
             blocks_for(a.count / static_cast<int64_t>(16 / sizeof(e))));
    } else {
      kernel(e, std::integral_constant<int, 1>{}, blocks_for(a.count));
    }
  });
}

__device__ float exponential(float x) {
  return exp2f(x * 1.4426950408889634f);
}

// A running maximum and the sum of exponentials over it.
struct RunningSum {
  float maximum = -INFINITY, sum = 0;
  __device__ void add(float x) {
    if (x > maximum) {
      sum *= exponential(maximum - x);
      maximum = x;
    }
    sum += exponential(x - maximum);
  }
  __device__ void merge(float other_maximum, float other_sum) {
    const float larger = fmaxf(maximum, other_maximum);
    if (larger == -INFINITY) return;
    sum = sum * exponential(maximum - larger) + other_sum * exponential(other_maximum - larger);
    maximum = larger;
  }
};

constexpr int kRowThreads = 512;

// The whole block's running sum, on thread 0.
__device__ RunningSum reduce_block(RunningSum own) {
  __shared__ float maxima[kRowThreads / 32], sums[kRowThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    own.merge(__shfl_down_sync(~0u, own.maximum, offset), __shfl_down_sync(~0u, own.sum, offset));
  }
  if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = own.maximum, sums[threadIdx.x / 32] = own.sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int n = 1; n < kRowThreads / 32; ++n) own.merge(maxima[n], sums[n]);
  }
  return own;
}

// One block a row. A thread takes its vector's maximum first, so that the running sum is rescaled once for
// it.
template <typename E, int N>
__global__ void cross_entropy_kernel(CrossEntropy a) {
  const int64_t row = blockIdx.x;
  const E* logits = static_cast<const E*>(a.logits) + row * a.stride;
  RunningSum own;
  for (int64_t place = static_cast<int64_t>(threadIdx.x) * N; place + N <= a.V; place += kRowThreads * N) {
    const auto vector = load<E, N>(logits + place);
    float x[N], largest = own.maximum;
#pragma unroll
    for (int n = 0; n < N; ++n) largest = fmaxf(largest, x[n] = wide(vector.at[n]));
    if (largest > own.maximum) own.sum *= exponential(own.maximum - largest), own.maximum = largest;
#pragma unroll
    for (int n = 0; n < N; ++n) own.sum += own.maximum == -INFINITY ? 0 : exponential(x[n] - own.maximum);
  }
  for (int64_t place = a.V / N * N + threadIdx.x; place < a.V; place += kRowThreads)
    own.add(wide(logits[place]));
  own = reduce_block(own);
  if (threadIdx.x == 0) {
    a.log_sum_exp[row] = own.maximum + logf(own.sum);
    a.losses[row] = own.maximum - wide(logits[a.targets[row]]) + logf(own.sum);  // exact for large logits too
  }
}

template <typename E, int N>
__global__ void cross_entropy_backward_kernel(CrossEntropy a) {
  const int64_t row = blockIdx.x, target = a.targets[row];
  const E* logits = static_cast<const E*>(a.logits) + row * a.stride;
  E* grads = static_cast<E*>(a.grad_logits) + row * a.stride;
  const float log_sum_exp = a.log_sum_exp[row], scale = *a.grad / static_cast<float>(a.N);
  const auto slope = [&](float logit, int64_t place) {
    return scale * (exponential(logit - log_sum_exp) - (place == target ? 1.0f : 0.0f));
  };
  for (int64_t place = static_cast<int64_t>(threadIdx.x) * N; place + N <= a.V; place += kRowThreads * N) {
    const auto vector = load<E, N>(logits + place);
    Vector<E, N> grad;
#pragma unroll
    for (int n = 0; n < N; ++n) grad.at[n] = narrow<E>(slope(wide(vector.at[n]), place + n));
    store<E, N>(grads + place, grad);
  }
  for (int64_t place = a.V / N * N + threadIdx.x; place < a.V; place += kRowThreads) {
    grads[place] = narrow<E>(slope(wide(logits[place]), place));
  }
}

// Rows of 16-byte vectors where every row starts at such an address.
bool whole_rows(const CrossEntropy& a, size_t element_bytes) {
  return aligned(a.logits, 16) && aligned(a.grad_logits, 16) &&
         a.stride * static_cast<int64_t>(element_bytes) % 16 == 0;
}

}  // namespace

cudaError_t launch_rotation(const Rotation& a, cudaStream_t stream) {
  const auto whole = [&](int count) {
    bool result = a.half % count == 0 && a.d % count == 0;
    for (int64_t stride : {a.batch_stride, a.token_stride, a.head_stride}) result &= stride % count == 0;
    for (const void* pointer : {a.x, a.cosine, a.sine, static_cast<const void*>(a.out)})
      result &= aligned(pointer, 16);
    return result;
  };
  if (a.element != Element::kFloat32 && whole(8)) return launch_rotation_of<8>(a, stream);
  return whole(4) ? launch_rotation_of<4>(a, stream) : launch_rotation_of<1>(a, stream);
}

cudaError_t launch_silu_product(const SiluProduct& a, cudaStream_t stream) {
  return launch_elementwise(a, [&](auto e, auto n, unsigned blocks) {
    silu_product_kernel<decltype(e), decltype(n)::value><<<blocks, kThreads, 0, stream>>>(a);
  });
}

cudaError_t launch_silu_product_backward(const SiluProduct& a, cudaStream_t stream) {
  return launch_elementwise(a, [&](auto e, auto n, unsigned blocks) {
    silu_product_backward_kernel<decltype(e), decltype(n)::value><<<blocks, kThreads, 0, stream>>>(a);
  });
}

cudaError_t launch_cross_entropy(const CrossEntropy& a, cudaStream_t stream) {
  return with_element(a.element, [&](auto e) {
    using E = decltype(e);
    const auto kernel =
        whole_rows(a, sizeof(E)) ? cross_entropy_kernel<E, 16 / sizeof(E)> : cross_entropy_kernel<E, 1>;
    kernel<<<static_cast<unsigned>(a.N), kRowThreads, 0, stream>>>(a);
  });
}

cudaError_t launch_cross_entropy_backward(const CrossEntropy& a, cudaStream_t stream) {
  return with_element(a.element, [&](auto e) {
    using E = decltype(e);
    const auto kernel = whole_rows(a, sizeof(E)) ? cross_entropy_backward_kernel<E, 16 / sizeof(E)>
                                                 : cross_entropy_backward_kernel<E, 1>;
    kernel<<<static_cast<unsigned>(a.N), kRowThreads, 0, stream>>>(a);
  });
}

}  // namespace openwork::cuda
