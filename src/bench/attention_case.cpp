// Makes and runs cases of gated attention; see attention_case.h.
#include "bench/attention_case.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

namespace openwork {
namespace {

using at::Tensor;

// `make(shape)` as it lies in memory, or with heads and tokens swapped in memory but not in shape.
template <typename Make>
Tensor lay_out(const AttentionCase& attention_case, int64_t heads, const Make& make) {
  const auto& of = attention_case;
  if (of.transposed) return make({of.B, of.T, heads, of.d}).transpose(1, 2);
  return make({of.B, heads, of.T, of.d});
}

template <typename Call>
AttentionGradients differentiate(const AttentionInputs& inputs, const Call& call) {
  at::AutoGradMode on(true);
  std::vector<Tensor> leaves;
  for (const Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.bias, &inputs.idle}) {
    if (tensor->defined()) leaves.push_back(tensor->detach().requires_grad_());
  }
  const bool idle = inputs.idle.defined();
  const GatedAttentionResult result =
      call(leaves[0], leaves[1], leaves[2], leaves[3], idle ? std::optional(leaves[4]) : std::nullopt);
  const auto grads =
      torch::autograd::grad({result.out, result.penalty}, leaves,
                            {inputs.grad_out, inputs.grad_penalty.to(result.penalty.scalar_type())});
  return {{result.out.detach(), result.penalty.detach(), result.active},
          grads[0],
          grads[1],
          grads[2],
          grads[3],
          idle ? grads[4] : Tensor()};
}

}  // namespace

std::string describe(const AttentionCase& attention_case) {
  const auto& of = attention_case;
  std::string heads = std::to_string(of.H);
  if (of.Hkv != of.H) heads += "/" + std::to_string(of.Hkv);
  return "B" + std::to_string(of.B) + " H" + heads + " T" + std::to_string(of.T) + " d" +
         std::to_string(of.d) + " " + c10::toString(of.dtype) + " " + of.gate +
         (of.seed ? " sampled" : " hard") + (of.first ? " first " + std::to_string(of.first) : "") +
         (of.transposed ? " transposed" : "") +
         (of.sharpness == 1 ? "" : " sharpness " + std::to_string(static_cast<int>(of.sharpness)));
}

AttentionInputs AttentionInputs::to(at::Device device) const {
  return {q.to(device),
          k.to(device),
          v.to(device),
          bias.to(device),
          grad_out.to(device),
          grad_penalty.to(device),
          idle.defined() ? idle.to(device) : idle};
}

AttentionInputs AttentionInputs::to(at::ScalarType dtype) const {
  return {q.to(dtype),
          k.to(dtype),
          v.to(dtype),
          bias.to(dtype),
          grad_out.to(dtype),
          grad_penalty.to(dtype),
          idle.defined() ? idle.to(dtype) : idle};
}

AttentionInputs make_inputs(const AttentionCase& attention_case) {
  const auto& of = attention_case;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(
      static_cast<uint64_t>(of.T * 1000003 + of.d * 1009 + of.H * 31 + of.B));
  const auto normal = [&](at::IntArrayRef shape) {
    return at::randn(shape, generator, at::kDouble).to(of.dtype);
  };
  AttentionInputs inputs;
  inputs.q = lay_out(of, of.H, normal);
  inputs.k = lay_out(of, of.Hkv, normal);
  inputs.v = lay_out(of, of.Hkv, normal);
  const auto per_head = [&](double centre) {
    return (at::randn({of.H}, generator, at::kDouble) + centre)
        .to(at::kFloat)
        .to(of.dtype == at::kDouble ? at::kDouble : at::kFloat);
  };
  inputs.bias = per_head(of.bias);
  inputs.grad_out = lay_out(of, of.H, normal);
  inputs.grad_penalty = normal({of.B, of.H}) * static_cast<double>(of.T);
  if (of.gate == kGateIdle) inputs.idle = per_head(of.idle);
  return inputs;
}

AttentionGradients run_operator(const AttentionCase& attention_case, const AttentionInputs& inputs) {
  const auto& of = attention_case;
  return differentiate(inputs, [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                                   const std::optional<Tensor>& idle) {
    return gated_attention(q, k, v, bias, idle, of.gate, of.seed, of.first, std::nullopt, of.sharpness);
  });
}

AttentionGradients run_reference(const AttentionCase& attention_case, const AttentionInputs& inputs) {
  const auto& of = attention_case;
  return differentiate(inputs, [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                                   const std::optional<Tensor>& idle) {
    return gated_attention_reference(q, k, v, bias, idle, of.gate, of.seed, of.first, std::nullopt,
                                     of.sharpness);
  });
}

}  // namespace openwork
