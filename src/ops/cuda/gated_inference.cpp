// gated_inference on the GPU: takes tensors apart for the kernels (inference.cu). A step of generation runs this in
// every layer, so nothing here may wait for the GPU, and nothing is launched or allocated that one query does not need.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <limits>

#include "ops/arguments.h"
#include "ops/cuda/inference.h"

namespace openwork {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

constexpr int64_t kEight = 8;  // numbers of a row that the kernels read together

cuda::Element element_of_query(const Tensor& q) {
  TORCH_CHECK(q.scalar_type() != at::kDouble, "gated_inference: q has dtype ", q.scalar_type(),
              " on a GPU; float32, bfloat16 or float16 is wanted there (float64 runs on the CPU)");
  if (q.scalar_type() == at::kFloat) return cuda::Element::kFloat32;
  return q.scalar_type() == at::kHalf ? cuda::Element::kFloat16 : cuda::Element::kBFloat16;
}

// Rows of a multiple of eight numbers, each at a multiple of sixteen bytes. A projection's view and a cache, the
// usual cases, pass as they are.
Tensor align_rows(const Tensor& tensor) {
  const int64_t d = tensor.size(3), more = (kEight - d % kEight) % kEight;
  const Tensor rows = more == 0 ? tensor : at::constant_pad_nd(tensor, {0, more});
  bool ready = rows.stride(3) == 1 && reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0;
  for (int dim = 0; dim < 3; ++dim) ready &= rows.size(dim) == 1 || rows.stride(dim) % kEight == 0;
  return ready ? rows : rows.clone(at::MemoryFormat::Contiguous);
}

cuda::Rows aligned_rows_of(const Tensor& tensor) {
  return {const_cast<void*>(tensor.const_data_ptr()), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

void check_sizes(const Tensor& q, const Tensor& k) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  TORCH_CHECK(q.size(3) <= cuda::kLargestSize, "gated_inference: q has head size ", q.size(3), "; at most ",
              cuda::kLargestSize, " is wanted on a GPU");
  TORCH_CHECK(k.size(2) <= kMost / 2, "gated_inference: k has ", k.size(2),
              " tokens; fewer than 2^30 are wanted");
  const int64_t rows = q.size(0) * q.size(1) * q.size(2);
  TORCH_CHECK(rows <= kMost / cuda::count_chunks(static_cast<int>(k.size(2))),
              "gated_inference: q has shape ", q.sizes(), "; fewer rows are wanted: split the batch");
}

// bias and idle as the kernels read them: both float32, or both of q's dtype.
struct Gates {
  MaybeTensor bias, idle;
  bool are_float = true;

  Gates(const MaybeTensor& bias_in, const MaybeTensor& idle_in) : bias(bias_in), idle(idle_in) {
    if (bias && idle && bias->scalar_type() != idle->scalar_type())
      bias = bias->to(at::kFloat), idle = idle->to(at::kFloat);
    if (bias) bias = bias->contiguous(), are_float = bias->scalar_type() == at::kFloat;
    if (idle) idle = idle->contiguous();
  }
};

Tensor infer_on_gpu(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const MaybeTensor& bias,
                    const MaybeTensor& idle, const MaybeTensor& key_of_query, std::string_view gate,
                    std::optional<double> scale) {
  check_gated_inference(q_in, k_in, v_in, bias, idle, key_of_query, gate);
  const c10::cuda::CUDAGuard guard(q_in.device());
  cuda::Inference call;
  call.element = element_of_query(q_in);
  if (q_in.numel() == 0) return at::empty(q_in.sizes(), q_in.options());
  check_sizes(q_in, k_in);
  const GateKind kind = inference_gate_of(gate);
  const Gates gates(bias, idle);
  const Tensor q = align_rows(q_in), k = align_rows(k_in), v = align_rows(v_in);
  const int64_t B = q.size(0), H = q.size(1), T = q.size(2), K = k.size(2), d = q.size(3);
  // Token by token, as what follows (the output projection) reads it.
  const Tensor out = at::empty({B, T, H, d}, q.options()).transpose(1, 2);
  call.B = static_cast<int>(B), call.H = static_cast<int>(H), call.T = static_cast<int>(T);
  call.K = static_cast<int>(K), call.d = static_cast<int>(d), call.key_heads = static_cast<int>(k.size(1));
  call.gated = kind != GateKind::kNone;
  call.of_row = kind == GateKind::kLogprob || kind == GateKind::kIdle;
  call.float_gates = gates.are_float;
  call.scale = static_cast<float>(scale_of(q_in, scale));
  if (gates.bias) call.bias = gates.bias->const_data_ptr();
  if (gates.idle) call.idle = gates.idle->const_data_ptr();
  const Tensor heads = key_of_query ? key_of_query->contiguous() : Tensor();
  if (heads.defined()) call.key_of_query = heads.const_data_ptr<int64_t>();
  call.q = aligned_rows_of(q), call.k = aligned_rows_of(k), call.v = aligned_rows_of(v);
  call.out = aligned_rows_of(out);

  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(q.get_device()).stream();
  if (K <= cuda::kShortCache) {
    C10_CUDA_CHECK(cuda::launch_short_inference(call, stream));
  } else {
    const int64_t rows = B * H * T, chunks = cuda::count_chunks(call.K);
    const Tensor room = at::empty({rows * (K + 2 * chunks)}, q.options().dtype(at::kFloat));
    call.scores = room.mutable_data_ptr<float>();
    call.chunk_largest = call.scores + rows * K;
    call.chunk_sums = call.chunk_largest + rows * chunks;
    C10_CUDA_CHECK(cuda::launch_long_inference(call, stream));
  }
  return d == q_in.size(3) ? out : out.slice(3, 0, q_in.size(3)).contiguous();
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, CUDA, library) {
  library.impl("gated_inference", infer_on_gpu);
}

}  // namespace openwork
