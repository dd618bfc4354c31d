// The door to the CPU's inference kernel: plain arguments, and the work shared over threads.
#include "ops/gated_inference.h"

#include <ATen/ATen.h>

#include "ops/cpu/tensors.h"

namespace openwork {
namespace {

using at::Tensor;

void check(const Tensor& q, const Tensor& k, const Tensor& v) {
  TORCH_CHECK(q.device().is_cpu(), "gated_inference: q is on ", q.device(), "; a CPU tensor is wanted");
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                  q.size(3) == k.size(3) && q.size(2) <= k.size(2),
              "gated_inference: q has shape ", q.sizes(), ", k ", k.sizes(), " and v ", v.sizes(),
              "; [B, H, T, d] and twice [B, G, K, d] with K >= T are wanted");
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
              "gated_inference: q, k and v must have one dtype");
}

Tensor find_key_heads(const Tensor& key_of_query, int64_t heads, int64_t key_heads) {
  if (key_of_query.defined()) return key_of_query.contiguous();
  TORCH_CHECK(heads % key_heads == 0, "gated_inference: ", heads, " heads over ", key_heads,
              " key/value heads; a multiple is wanted, or key_of_query");
  return at::arange(heads, at::kLong).floor_divide(heads / key_heads);
}

Tensor as_double(const Tensor& x) {
  return x.defined() ? x.to(at::kDouble).contiguous() : x;
}

}  // namespace

Tensor gated_inference(const Tensor& q_, const Tensor& k_, const Tensor& v_, const Tensor& bias_,
                       const Tensor& idle_, GateKind gate, double scale, const Tensor& key_of_query) {
  check(q_, k_, v_);
  const Tensor q = with_contiguous_rows(q_), k = with_contiguous_rows(k_), v = with_contiguous_rows(v_);
  const Tensor bias = as_double(bias_), idle = as_double(idle_);
  const Tensor heads = find_key_heads(key_of_query, q.size(1), k.size(1));
  const Tensor out = at::empty(q.sizes(), q.options());
  cpu::InferenceProblem problem{};
  problem.element = element_of(q.scalar_type());
  problem.B = q.size(0), problem.H = q.size(1), problem.T = q.size(2), problem.d = q.size(3);
  problem.group = 1, problem.K = k.size(2);
  problem.q = view_of(q), problem.k = view_of(k), problem.v = view_of(v);
  problem.bias = bias.defined() ? bias.const_data_ptr<double>() : nullptr;
  problem.idle = idle.defined() ? idle.const_data_ptr<double>() : nullptr;
  problem.scale = scale, problem.sharpness = 1;
  problem.gated = gate != GateKind::kNone,
  problem.of_row = gate == GateKind::kLogprob || gate == GateKind::kIdle;
  problem.key_head = heads.const_data_ptr<int64_t>();
  problem.out = out.mutable_data_ptr();

  const int64_t per_head = problem.tasks_per_head(), H = problem.H;
  const auto work = [&](int64_t task, void* workspace) {
    const int64_t head = task / per_head,
                  part = per_head - 1 - task % per_head;  // a head's longest rows first
    cpu::choose_kernels().infer(problem, head / H, head % H, part, workspace);
  };
  for_each_task(problem.B * H * per_head, cpu::choose_kernels().inference_workspace(problem), work);
  return out;
}

}  // namespace openwork
