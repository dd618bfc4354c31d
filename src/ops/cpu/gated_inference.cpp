// gated_inference on the CPU: plain arguments for the kernel (inference.cpp), and the work shared over threads.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "ops/arguments.h"
#include "ops/cpu/tensors.h"

namespace openwork {
namespace {

using at::Tensor;

using MaybeTensor = std::optional<Tensor>;

std::vector<int64_t> find_key_heads(const MaybeTensor& key_of_query, int64_t heads, int64_t key_heads) {
  std::vector<int64_t> read(static_cast<size_t>(heads));
  if (!key_of_query) {
    for (int64_t h = 0; h < heads; ++h) read[static_cast<size_t>(h)] = h / (heads / key_heads);
    return read;
  }
  const Tensor given = key_of_query->contiguous();
  std::copy_n(given.const_data_ptr<int64_t>(), heads, read.begin());
  for (const int64_t head : read) {
    TORCH_CHECK(head >= 0 && head < key_heads, "gated_inference: key_of_query has ", head,
                "; an index below k's ", key_heads, " heads is wanted");
  }
  return read;
}

Tensor as_double(const MaybeTensor& x) {
  return x ? x->to(at::kDouble).contiguous() : Tensor();
}

Tensor infer_on_cpu(const Tensor& q_, const Tensor& k_, const Tensor& v_, const MaybeTensor& bias_,
                    const MaybeTensor& idle_, const MaybeTensor& key_of_query, std::string_view gate_name,
                    std::optional<double> scale) {
  check_gated_inference(q_, k_, v_, bias_, idle_, key_of_query, gate_name);
  const GateKind gate = inference_gate_of(gate_name);
  const Tensor q = with_contiguous_rows(q_), k = with_contiguous_rows(k_), v = with_contiguous_rows(v_);
  const Tensor bias = as_double(bias_), idle = as_double(idle_);
  const std::vector<int64_t> heads = find_key_heads(key_of_query, q.size(1), k.size(1));
  const Tensor out = at::empty(q.sizes(), q.options());
  cpu::InferenceProblem problem{};
  problem.element = element_of(q.scalar_type());
  problem.B = q.size(0), problem.H = q.size(1), problem.T = q.size(2), problem.d = q.size(3);
  problem.group = 1, problem.K = k.size(2);
  problem.q = view_of(q), problem.k = view_of(k), problem.v = view_of(v);
  problem.bias = bias.defined() ? bias.const_data_ptr<double>() : nullptr;
  problem.idle = idle.defined() ? idle.const_data_ptr<double>() : nullptr;
  problem.scale = scale_of(q, scale), problem.sharpness = 1;
  problem.gated = gate != GateKind::kNone,
  problem.of_row = gate == GateKind::kLogprob || gate == GateKind::kIdle;
  problem.key_head = heads.data();
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

}  // namespace

TORCH_LIBRARY_IMPL(openwork, CPU, library) {
  library.impl("gated_inference", infer_on_cpu);
}

}  // namespace openwork
