// Gated attention on the CPU: prepares plain arguments for the kernels, picks those of the machine's
// instruction set, and shares the work over threads. A forward task is one block of query rows. Backward
// walks each key/value head's row blocks in one task, which makes every tile once; where there are too few
// heads for the threads it takes two rounds, row blocks for dq, then key tiles for dk and dv. Every sum has a
// fixed order, so results do not depend on the number of threads or on which way was taken.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/library.h>

#include "ops/arguments.h"
#include "ops/cpu/kernel.h"
#include "ops/cpu/tensors.h"
#include "ops/fused.h"

namespace openwork {

const cpu::Kernels& cpu::choose_kernels() {
#if defined(__x86_64__)
  // ATen's own choice, so that ATEN_CPU_CAPABILITY (default, avx2, avx512) rules these kernels too.
  static const std::string capability = at::get_cpu_capability();
  if (capability == "AVX512" && __builtin_cpu_supports("avx512dq")) return cpu::avx512::kKernels;
  if (capability == "AVX512" || capability == "AVX2") return cpu::avx2::kKernels;
#endif
  return cpu::baseline::kKernels;
}

namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// What the kernels' pointers point into, alive for the length of a call.
struct Inputs {
  Tensor q, k, v, bias;
  Tensor idle;  // undefined unless the gate is idle

  Inputs(const Tensor& q_, const Tensor& k_, const Tensor& v_, const Tensor& bias_, const MaybeTensor& idle_)
      : q(with_contiguous_rows(q_)),
        k(with_contiguous_rows(k_)),
        v(with_contiguous_rows(v_)),
        bias(bias_.to(at::kDouble).contiguous()),
        idle(idle_ ? idle_->to(at::kDouble).contiguous() : Tensor()) {}

  void describe(std::string_view gate, std::optional<int64_t> seed, int64_t first, double scale,
                double sharpness, cpu::Problem& problem) const {
    problem.element = element_of(q.scalar_type());
    problem.B = q.size(0), problem.H = q.size(1), problem.T = q.size(2), problem.d = q.size(3);
    problem.group = problem.H / k.size(1);
    problem.q = view_of(q), problem.k = view_of(k), problem.v = view_of(v);
    problem.bias = bias.const_data_ptr<double>();
    problem.idle = idle.defined() ? idle.const_data_ptr<double>() : nullptr;
    problem.scale = scale, problem.sharpness = sharpness;
    problem.of_row = gate_of(gate) != GateKind::kScore;
    problem.sampled = seed.has_value();
    problem.seed = static_cast<uint64_t>(seed.value_or(0)), problem.first = static_cast<uint64_t>(first);
  }
};

double causal_pairs(int64_t T) {
  return 0.5 * static_cast<double>(T) * static_cast<double>(T + 1);
}

// No slopes are kept here: backward sums a row's gate gradients over tiles that it has at hand.
ForwardResult forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                      const MaybeTensor& idle, std::string_view gate, std::optional<int64_t> seed,
                      int64_t first, double scale, double sharpness, bool) {
  check_gated_attention(q, k, v, bias, idle, gate, first, sharpness);
  const Inputs inputs(q, k, v, bias, idle);
  cpu::ForwardProblem problem;
  inputs.describe(gate, seed, first, scale, sharpness, problem);
  const int64_t B = problem.B, H = problem.H, T = problem.T, blocks = problem.blocks();
  const auto sums = q.options().dtype(sum_dtype(q));
  const Tensor out = at::empty(q.sizes(), q.options()), log_sum_exp = at::empty({B, H, T}, sums);
  const Tensor penalty = at::empty({B, H, blocks}, at::kDouble),
               active = at::empty({B, H, blocks}, at::kLong);
  problem.out = out.mutable_data_ptr();
  problem.log_sum_exp = log_sum_exp.mutable_data_ptr();
  problem.penalty = penalty.mutable_data_ptr<double>();
  problem.active = active.mutable_data_ptr<int64_t>();

  for_each_task(B * H * blocks, cpu::choose_kernels().forward_workspace(problem),
                [&](int64_t task, void* workspace) {
                  const int64_t head = task / blocks,
                                block = blocks - 1 - task % blocks;  // a head's longest rows first
                  cpu::choose_kernels().forward(problem, head / H, head % H, block, workspace);
                });
  const auto [slope_rows, slope_sums] = make_slopes(q, problem.sampled, false);
  return {out,
          (penalty.sum(-1) / std::max(1.0, causal_pairs(T))).to(sum_dtype(q)),
          active.sum(-1),
          log_sum_exp,
          slope_rows,
          slope_sums};
}

// One task per key/value head: its query heads' row blocks in order, every tile made once.
void backward_by_heads(const cpu::BackwardProblem& problem) {
  const int64_t heads = problem.H / problem.group;
  for_each_task(problem.B * heads, cpu::choose_kernels().backward_workspace(problem),
                [&](int64_t task, void* workspace) {
                  const int64_t b = task / heads, first = task % heads * problem.group;
                  for (int64_t h = first; h < first + problem.group; ++h) {
                    for (int64_t block = 0; block < problem.blocks(); ++block) {
                      cpu::choose_kernels().backward(problem, {b, h, block, 0, block, true, true}, workspace);
                    }
                  }
                });
}

// Two rounds with many small tasks; every tile is made twice.
void backward_by_tiles(const cpu::BackwardProblem& problem) {
  const int64_t H = problem.H, heads = H / problem.group, blocks = problem.blocks();
  const size_t bytes = cpu::choose_kernels().backward_workspace(problem);
  for_each_task(problem.B * H * blocks, bytes, [&](int64_t task, void* workspace) {
    const int64_t head = task / blocks, block = blocks - 1 - task % blocks;
    cpu::choose_kernels().backward(problem, {head / H, head % H, block, 0, block, true, false}, workspace);
  });
  // Neighbouring key tiles share a task: a row block is loaded and transposed once for all of them.
  constexpr int64_t kTilesTogether = 4;
  const int64_t groups = (blocks + kTilesTogether - 1) / kTilesTogether;
  for_each_task(problem.B * heads * groups, bytes, [&](int64_t task, void* workspace) {
    const int64_t b = task / (heads * groups), first_head = task / groups % heads * problem.group;
    const int64_t first = task % groups * kTilesTogether, last = std::min(first + kTilesTogether, blocks) - 1;
    for (int64_t h = first_head; h < first_head + problem.group; ++h) {
      for (int64_t block = first; block < blocks; ++block) {
        cpu::choose_kernels().backward(problem, {b, h, block, first, std::min(last, block), false, true},
                                       workspace);
      }
    }
  });
}

// Tiles made twice cost about 1.6 times the work; whole heads leave threads idle when they do not divide
// well.
bool whole_heads_are_faster(const cpu::BackwardProblem& problem) {
  const double heads = static_cast<double>(problem.B * (problem.H / problem.group)),
               threads = at::get_num_threads();
  return std::ceil(heads / threads) <= 1.6 * heads / threads;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& grad_out, const Tensor& grad_penalty, const Tensor& q, const Tensor& k, const Tensor& v,
    const Tensor& bias, const MaybeTensor& idle, const Tensor& out, const Tensor& log_sum_exp,
    const Tensor& slope_rows, const Tensor& slope_sums, std::string_view gate, std::optional<int64_t> seed,
    int64_t first, double scale, double sharpness, const MaybeTensor& cosine, const MaybeTensor& sine) {
  check_gated_attention_backward(grad_out, grad_penalty, q, k, v, bias, idle, out, log_sum_exp, gate, first,
                                 sharpness);
  check_slopes(slope_rows, slope_sums, q, seed.has_value());
  const bool turned = check_turns(cosine, sine, q);
  const Inputs inputs(q, k, v, bias, idle);
  cpu::BackwardProblem problem;
  inputs.describe(gate, seed, first, scale, sharpness, problem);
  const int64_t B = problem.B, H = problem.H, T = problem.T, d = problem.d,
                lanes = cpu::choose_kernels().lanes;
  const int64_t padded = (d + lanes - 1) / lanes * lanes;
  const auto sums = q.options().dtype(sum_dtype(q));
  const Tensor dy = with_contiguous_rows(grad_out), y = with_contiguous_rows(out);
  const Tensor row_sums = log_sum_exp.contiguous();
  const Tensor dpenalty = (grad_penalty.to(at::kDouble) / std::max(1.0, causal_pairs(T))).contiguous();
  const Tensor grad_q = at::empty(q.sizes(), q.options()), gate_sums = at::empty({B, H, T}, sums);
  const Tensor grad_k = at::zeros({B, k.size(1), T, padded}, sums), grad_v = at::zeros_like(grad_k);
  const Tensor grad_bias = at::empty({B, H, problem.blocks()}, at::kDouble);
  const Tensor grad_idle = idle ? at::empty_like(grad_bias) : Tensor();
  problem.grad_out = view_of(dy), problem.out = view_of(y);
  problem.log_sum_exp = row_sums.const_data_ptr();
  problem.grad_penalty = dpenalty.const_data_ptr<double>();
  problem.grad_q = grad_q.mutable_data_ptr();
  problem.grad_k = grad_k.mutable_data_ptr(), problem.grad_v = grad_v.mutable_data_ptr();
  problem.gate_sums = gate_sums.mutable_data_ptr();
  problem.grad_bias = grad_bias.mutable_data_ptr<double>();
  problem.grad_idle = idle ? grad_idle.mutable_data_ptr<double>() : nullptr;

  whole_heads_are_faster(problem) ? backward_by_heads(problem) : backward_by_tiles(problem);
  // Padding off, and q's dtype; nothing to do for float32 of whole vectors.
  const auto finish = [&](const Tensor& sum) {
    return sum.narrow(-1, 0, d).to(q.scalar_type()).contiguous();
  };
  const auto per_head = [](const Tensor& parts, const Tensor& of) {
    return parts.sum(at::IntArrayRef{0, 2}).to(of.scalar_type());
  };
  const auto turn_back = [&](const Tensor& grad) {
    return turned ? turn_heads(grad, *cosine, -*sine) : grad;
  };
  return {turn_back(grad_q), turn_back(finish(grad_k)), finish(grad_v), per_head(grad_bias, bias),
          idle ? per_head(grad_idle, *idle) : at::empty({0}, bias.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, CPU, library) {
  library.impl("gated_attention_forward", forward);
  library.impl("gated_attention_backward", backward);
}

}  // namespace openwork
