// Gated attention on the GPU: takes tensors apart for the kernels (launch.h) and puts the results together.
//   fast kernels   bfloat16 and float16 on tensor cores; head sizes between the compiled ones are padded
//   plain kernels  float32 (all sums by float32 multiply-add), scales that are not positive, and devices
//   whose
//                  blocks have too little shared memory
// Every sum has a fixed order but dq's in Hopper's fused backward pass; under
// torch.use_deterministic_algorithms the two-pass form runs there too, and results repeat bit for bit.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "ops/arguments.h"
#include "ops/cuda/layout.h"
#include "ops/cuda/seeded_nodes.h"
#include "ops/cuda/tensor_map.h"
#include "ops/cuda/tensors.h"
#include "ops/fused_kernels.h"
#include "ops/split.h"

namespace openwork {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

constexpr const char* kName = "gated_attention";

// A device's limits, asked once per device.
struct Limits {
  int shared_bytes = 0, major = 0;
};
Limits limits_of(int device) {
  Limits limits;
  C10_CUDA_CHECK(
      cudaDeviceGetAttribute(&limits.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  limits.major = compute_major(device);
  TORCH_CHECK(limits.major >= 8, "gated_attention: GPU ", device, " has compute capability ", limits.major,
              ".x; 8.0 or later is wanted (or move the tensors to the CPU)");
  return limits;
}

// The compiled head size that holds d numbers.
int fast_size(int64_t d) {
  for (int size : cuda::kFastSizes) {
    if (d <= size) return size;
  }
  return 0;
}

// How a call is computed: by which kernels, at which head size.
struct Plan {
  bool fast = false;
  bool hopper = false;  // the warpgroup kernels, where the fast ones have them
  int64_t size = 0;
};
Plan plan_for(const Tensor& q, double scale) {
  const int64_t d = q.size(3);
  TORCH_CHECK(d <= cuda::kLargestSize, "gated_attention: q has head size ", d, "; at most ",
              cuda::kLargestSize, " is wanted on a GPU");
  TORCH_CHECK(q.size(2) <= std::numeric_limits<int>::max() / 2, "gated_attention: q has ", q.size(2),
              " tokens; fewer than 2^30 are wanted");
  const int64_t blocks = q.size(0) * q.size(1) * cuda::count_parts(static_cast<int>(q.size(2)));
  TORCH_CHECK(blocks <= std::numeric_limits<int>::max(), "gated_attention: q has shape ", q.sizes(),
              "; at most 2^31 blocks of 16 rows are wanted: split the batch");
  const Limits limits = limits_of(q.get_device());
  const int size = fast_size(d);
  const bool fast = q.scalar_type() != at::kFloat && static_cast<float>(scale) > 0 &&
                    cuda::fast_shared_bytes(size) <= limits.shared_bytes;
  const bool hopper = fast && limits.major == 9 && (size == 64 || size == 128);
  return {fast, hopper, fast ? size : d};
}

// The tensor as the kernels read it: d padded with zeros to `size`, rows contiguous and, for the fast
// kernels, 16-byte aligned; for Hopper's copy engine no row stands for several. A transposed view of a
// projection (the usual case) passes as it is.
Tensor prepare_rows(const Tensor& tensor, const Plan& plan) {
  Tensor rows = tensor;
  if (plan.size != tensor.size(3)) rows = at::constant_pad_nd(tensor, {0, plan.size - tensor.size(3)});
  bool ready = rows.stride(3) == 1 || rows.size(3) == 1;
  if (plan.fast) {
    ready &= reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0;
    for (int dim = 0; dim < 3; ++dim) {
      const bool fits = rows.stride(dim) % 8 == 0 && !(plan.hopper && rows.stride(dim) == 0);
      ready &= rows.size(dim) == 1 || fits;
    }
  }
  return ready ? rows : rows.clone(at::MemoryFormat::Contiguous);
}

// Room for [B, heads, T, size], laid out as q is: token by token where q is a transposed view of a
// projection, so that what follows (the output projection, the gradients of the projections) need not copy.
Tensor empty_rows(const Tensor& q, int64_t heads, int64_t size) {
  const int64_t B = q.size(0), T = q.size(2);
  if (q.stride(1) >= q.stride(2)) return at::empty({B, heads, T, size}, q.options());
  return at::empty({B, T, heads, size}, q.options()).transpose(1, 2);
}

// What forward and backward share; holds the prepared tensors while the kernels are enqueued.
struct Call {
  Plan plan;
  Tensor q, k, v, bias;
  Tensor idle;  // undefined unless the gate is idle
  cuda::Problem problem;
  cudaStream_t stream;

  Call(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const Tensor& bias_in,
       const MaybeTensor& idle_in, std::string_view gate, std::optional<int64_t> seed, int64_t first,
       double scale, double sharpness)
      : plan(plan_for(q_in, scale)),
        q(prepare_rows(q_in, plan)),
        k(prepare_rows(k_in, plan)),
        v(prepare_rows(v_in, plan)),
        bias(bias_in.to(at::kFloat).contiguous()),
        idle(idle_in ? idle_in->to(at::kFloat).contiguous() : Tensor()),
        stream(stream_of(q_in)) {
    problem.B = static_cast<int>(q.size(0)), problem.H = static_cast<int>(q.size(1));
    problem.key_heads = static_cast<int>(k.size(1)), problem.T = static_cast<int>(q.size(2));
    problem.d = static_cast<int>(plan.size);
    problem.element = element_of(q, kName);
    problem.of_row = gate_of(gate) != GateKind::kScore;
    problem.sampled = seed.has_value();
    problem.seed = static_cast<uint64_t>(seed.value_or(0));
    cuda::spread_seed(problem);
    problem.first = first;
    problem.scale = static_cast<float>(scale);
    problem.sharpness = static_cast<float>(sharpness);
    problem.bias = bias.const_data_ptr<float>();
    if (idle.defined()) problem.idle = idle.const_data_ptr<float>();
    problem.q = rows_of(q), problem.k = rows_of(k), problem.v = rows_of(v);
    problem.heads_at_once = cuda::heads_at_once(problem.B * problem.H);
    problem.key_heads_at_once = cuda::heads_at_once(problem.B * problem.key_heads);
  }
};

// Room for the gradients of q, k and v: in one stretch of memory where these are, as thirds of one product.
std::array<Tensor, 3> empty_gradients(const Call& call) {
  const Tensor &q = call.q, &k = call.k, &v = call.v;
  if (are_thirds(q, k, v)) return empty_thirds(q, k, v);
  return {empty_rows(q, q.size(1), q.size(3)), empty_rows(q, k.size(1), q.size(3)),
          empty_rows(q, k.size(1), q.size(3))};
}

Tensor turn_back(const Tensor& grad, const Tensor& cosine, const Tensor& sine) {
  static const auto kernel =
      find_kernel<Tensor(const Tensor&, const Tensor&, const Tensor&, bool)>("openwork::rotate_pairs");
  return kernel.call(grad.transpose(1, 2), cosine.contiguous(), sine.contiguous(), true).transpose(1, 2);
}

ForwardResult forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                      const MaybeTensor& idle, std::string_view gate, std::optional<int64_t> seed,
                      int64_t first, double scale, double sharpness, bool keep_slopes) {
  check_gated_attention(q, k, v, bias, idle, gate, first, sharpness);
  element_of(q, kName);  // refuses what no kernel takes, before anything is allocated
  const c10::cuda::CUDAGuard guard(q.device());
  const int64_t B = q.size(0), H = q.size(1), T = q.size(2), d = q.size(3);
  const auto floats = q.options().dtype(at::kFloat);
  Tensor penalty = at::empty({B, H}, floats), log_sum_exp = at::empty({B, H, T}, floats);
  Tensor active = at::empty({B, H}, q.options().dtype(at::kLong));
  const auto [slope_rows, slope_sums] = make_slopes(q, seed.has_value(), keep_slopes);
  if (q.numel() == 0) {
    return {at::empty(q.sizes(), q.options()),
            penalty.zero_(),
            active.zero_(),
            log_sum_exp,
            slope_rows,
            slope_sums};
  }

  const Call call(q, k, v, bias, idle, gate, seed, first, scale, sharpness);
  const int parts = cuda::count_parts(call.problem.T);
  Tensor out = empty_rows(q, H, call.plan.size);
  const Tensor penalty_parts = at::empty({B, H, parts}, floats);
  const auto ints = q.options().dtype(at::kInt);
  const Tensor active_parts = at::empty({B, H, parts}, ints), blocks_done = at::empty({B, H}, ints);
  const cuda::Forward arguments{call.problem,
                                rows_of(out),
                                log_sum_exp.mutable_data_ptr<float>(),
                                penalty_parts.mutable_data_ptr<float>(),
                                active_parts.mutable_data_ptr<int>(),
                                penalty.mutable_data_ptr<float>(),
                                active.mutable_data_ptr<int64_t>(),
                                blocks_done.mutable_data_ptr<int>(),
                                keep_slopes && seed ? rows_of(slope_rows) : cuda::Rows{},
                                keep_slopes ? slope_sums.mutable_data_ptr<float>() : nullptr};
  const SeededLaunches launches(call.problem, call.stream);
  if (call.plan.hopper) {
    C10_CUDA_CHECK(cuda::launch_hopper_forward(arguments, call.stream));
  } else {
    C10_CUDA_CHECK(call.plan.fast ? cuda::launch_fast_forward(arguments, call.stream)
                                  : cuda::launch_plain_forward(arguments, call.stream));
    C10_CUDA_CHECK(cuda::launch_sum_forward_parts(arguments, call.stream));
  }
  launches.done<cuda::Forward>();
  if (call.plan.size != d) out = out.slice(3, 0, d).contiguous();
  return {out, penalty, active, log_sum_exp, slope_rows, slope_sums};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& grad_out, const Tensor& grad_penalty, const Tensor& q, const Tensor& k, const Tensor& v,
    const Tensor& bias, const MaybeTensor& idle, const Tensor& out, const Tensor& log_sum_exp,
    const Tensor& slope_rows, const Tensor& slope_sums, std::string_view gate, std::optional<int64_t> seed,
    int64_t first, double scale, double sharpness, const MaybeTensor& cosine, const MaybeTensor& sine) {
  check_gated_attention_backward(grad_out, grad_penalty, q, k, v, bias, idle, out, log_sum_exp, gate, first,
                                 sharpness);
  const bool slopes_given = check_slopes(slope_rows, slope_sums, q, seed.has_value());
  const bool turned = check_turns(cosine, sine, q);
  element_of(q, kName);
  const c10::cuda::CUDAGuard guard(q.device());
  const int64_t B = q.size(0), H = q.size(1), T = q.size(2), d = q.size(3);
  if (q.numel() == 0) {
    return {at::zeros(q.sizes(), q.options()), at::zeros(k.sizes(), k.options()),
            at::zeros(v.sizes(), v.options()), at::zeros(bias.sizes(), bias.options()),
            idle ? at::zeros(idle->sizes(), idle->options()) : at::empty({0}, bias.options())};
  }

  const Call call(q, k, v, bias, idle, gate, seed, first, scale, sharpness);
  const auto floats = q.options().dtype(at::kFloat);
  const Tensor dy = prepare_rows(grad_out, call.plan), y = prepare_rows(out, call.plan);
  const Tensor sums = log_sum_exp.contiguous(), weights = grad_penalty.contiguous();
  const Tensor states = at::empty({B, H, T, 4}, floats);
  const Tensor bias_parts = at::empty({B, H, cuda::count_parts(call.problem.T)}, floats);
  const Tensor idle_parts = idle ? at::empty_like(bias_parts) : Tensor();
  auto [dq, dk, dv] = empty_gradients(call);
  Tensor dbias = at::empty({H}, floats), didle = at::empty({idle ? H : 0}, floats), query_sums;
  // Gates that know their row need the slopes there; without them the two passes serve as well.
  const bool fused = call.plan.hopper && !at::globalContext().deterministicAlgorithms() &&
                     (!call.problem.of_row || slopes_given);
  if (fused)
    query_sums =
        at::empty({B, H, cuda::count_parts(call.problem.T), cuda::kPartRows, call.plan.size}, floats);
  const Tensor row_slopes = slope_rows.contiguous(), row_slope_sums = slope_sums.contiguous();
  cuda::RowSlopes slopes;
  if (fused && call.problem.of_row) {
    if (seed) slopes.rows = rows_of(row_slopes);
    slopes.sums = row_slope_sums.const_data_ptr<float>();
  }
  // Whole heads are turned back on their way out; what has a part that is not turned, by a kernel of its own.
  const bool turns_rows = fused && turned && 2 * cosine->size(1) == call.plan.size;
  const Tensor cosines = turns_rows ? as_whole_rows(*cosine) : Tensor(),
               sines = turns_rows ? as_whole_rows(*sine) : Tensor();
  cuda::Backward arguments{call.problem,
                           rows_of(y),
                           rows_of(dy),
                           sums.const_data_ptr<float>(),
                           weights.const_data_ptr<float>(),
                           reinterpret_cast<cuda::RowState*>(states.mutable_data_ptr<float>()),
                           bias_parts.mutable_data_ptr<float>(),
                           idle ? idle_parts.mutable_data_ptr<float>() : nullptr,
                           fused ? query_sums.mutable_data_ptr<float>() : nullptr,
                           rows_of(dq),
                           rows_of(dk),
                           rows_of(dv),
                           dbias.mutable_data_ptr<float>(),
                           idle ? didle.mutable_data_ptr<float>() : nullptr,
                           slopes};
  if (fused) {
    const auto map = [&](const cuda::Rows& rows) {
      return map_rows(rows, call.problem.element, call.problem.B, call.problem.H, call.problem.T,
                      call.problem.d);
    };
    arguments.q_map = map(call.problem.q), arguments.dy_map = map(arguments.grad_out);
    if (turns_rows) arguments.cosine = cosines.const_data_ptr(), arguments.sine = sines.const_data_ptr();
  }
  const SeededLaunches launches(call.problem, call.stream);
  if (fused) {
    C10_CUDA_CHECK(cuda::launch_fused_backward(arguments, call.stream));
  } else {
    C10_CUDA_CHECK(call.plan.fast ? cuda::launch_fast_queries(arguments, call.stream)
                                  : cuda::launch_plain_queries(arguments, call.stream));
    C10_CUDA_CHECK(call.plan.fast ? cuda::launch_fast_keys(arguments, call.stream)
                                  : cuda::launch_plain_keys(arguments, call.stream));
    C10_CUDA_CHECK(cuda::launch_sum_gate_parts(arguments, call.stream));
  }
  launches.done<cuda::Backward>();
  if (call.plan.size != d) {
    for (Tensor* tensor : {&dq, &dk, &dv}) *tensor = tensor->slice(3, 0, d).contiguous();
  }
  if (turned && !turns_rows) dq = turn_back(dq, *cosine, *sine), dk = turn_back(dk, *cosine, *sine);
  return {dq, dk, dv, dbias.to(bias.scalar_type()), idle ? didle.to(idle->scalar_type()) : didle};
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, CUDA, library) {
  library.impl("gated_attention_forward", forward);
  library.impl("gated_attention_backward", backward);
}

}  // namespace openwork
