// gated_inference on the GPU: takes tensors apart for the kernels (inference.cu). A step of generation runs this in
// every layer, so nothing here may wait for the GPU, and nothing is launched or allocated that one query does not need.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <limits>

#include "ops/arguments.h"
#include "ops/cuda/inference.h"
#include "ops/cuda/tensors.h"
#include "ops/fused_kernels.h"

namespace openwork {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

constexpr int64_t kEight = 8;  // numbers of a row that the kernels read together

// Rows of a multiple of eight numbers, each at a multiple of sixteen bytes. A projection's view and a cache, the
// usual cases, pass as they are.
Tensor align_rows(const Tensor& tensor) {
  const int64_t d = tensor.size(3), more = (kEight - d % kEight) % kEight;
  const Tensor rows = more == 0 ? tensor : at::constant_pad_nd(tensor, {0, more});
  bool ready = rows.stride(3) == 1 && reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0;
  for (int dim = 0; dim < 3; ++dim) ready &= rows.size(dim) == 1 || rows.stride(dim) % kEight == 0;
  return ready ? rows : rows.clone(at::MemoryFormat::Contiguous);
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

// How a call is computed: few queries or few keys a block at a time; many queries by tiles on tensor cores; or, on a
// GPU whose kernels for that are gated_attention's, by those, which count and sum what is not asked for here.
enum class Way { kShort, kLong, kTiles, kOperator };

Way way_for(const Tensor& q, const Tensor& k, GateKind gate, double scale) {
  const bool half = q.scalar_type() != at::kFloat, many = q.size(2) > cuda::kFewQueries;
  const bool sized = q.size(3) == 64 || q.size(3) == 128;
  if (half && many && sized && static_cast<float>(scale) > 0 && compute_major(q.get_device()) == 9)
    return Way::kTiles;
  const bool is_short = k.size(2) <= cuda::kShortCache;
  if (gate != GateKind::kNone && many && q.size(2) == k.size(2) && (half || !is_short)) return Way::kOperator;
  return is_short ? Way::kShort : Way::kLong;
}

Tensor run_gated_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                           const MaybeTensor& idle, const MaybeTensor& key_of_query, std::string_view gate,
                           double scale) {
  static const auto forward = find_kernel<ForwardKernel>("openwork::gated_attention_forward");
  const auto own = [&](const Tensor& x) { return key_of_query ? x.index_select(1, *key_of_query) : x; };
  return std::get<0>(
      forward.call(q, own(k), own(v), bias, idle, gate, std::nullopt, 0, scale, /*sharpness=*/1, false));
}

Tensor infer_on_gpu(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const MaybeTensor& bias,
                    const MaybeTensor& idle, const MaybeTensor& key_of_query, std::string_view gate,
                    std::optional<double> scale) {
  check_gated_inference(q_in, k_in, v_in, bias, idle, key_of_query, gate);
  const c10::cuda::CUDAGuard guard(q_in.device());
  cuda::Inference call;
  call.element = element_of(q_in, "gated_inference");
  if (q_in.numel() == 0) return at::empty(q_in.sizes(), q_in.options());
  check_sizes(q_in, k_in);
  const GateKind kind = inference_gate_of(gate);
  const double c = scale_of(q_in, scale);
  const Way way = way_for(q_in, k_in, kind, c);
  if (way == Way::kOperator) return run_gated_attention(q_in, k_in, v_in, *bias, idle, key_of_query, gate, c);
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
  call.scale = static_cast<float>(c);
  if (gates.bias) call.bias = gates.bias->const_data_ptr();
  if (gates.idle) call.idle = gates.idle->const_data_ptr();
  const Tensor heads = key_of_query ? key_of_query->contiguous() : Tensor();
  if (heads.defined()) call.key_of_query = heads.const_data_ptr<int64_t>();
  call.q = rows_of(q), call.k = rows_of(k), call.v = rows_of(v);
  call.out = rows_of(out);

  const cudaStream_t stream = stream_of(q);
  if (way == Way::kTiles) {
    C10_CUDA_CHECK(cuda::launch_tiled_inference(call, stream));
  } else if (way == Way::kShort) {
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
