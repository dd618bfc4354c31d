// The operators of fused.h: their schemas, what they are in ATen's calls, and their gradients where a GPU
// kernel (cuda/fused.cpp) computes them.
#include "ops/fused.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/cpu/kernel.h"
#include "ops/few_rows.h"
#include "ops/fused_kernels.h"
#include "ops/rowwise.h"
#include "ops/threads.h"
#include "ops/vocabulary_product.h"

namespace openwork {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor call_rotate(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool back) {
  static const auto kernel =
      find_kernel<Tensor(const Tensor&, const Tensor&, const Tensor&, bool)>("openwork::rotate_pairs");
  return kernel.call(x, cosine, sine, back);
}

Tensor rotate_plainly(const Tensor& x, const Tensor& cosine_table, const Tensor& sine_table) {
  const int64_t half = cosine_table.size(1);
  const Tensor cosine = cosine_table.unsqueeze(1), sine = sine_table.unsqueeze(1);  // [T, 1, half]
  const Tensor first = x.narrow(-1, 0, half), second = x.narrow(-1, half, half);
  std::vector<Tensor> parts = {first * cosine - second * sine, second * cosine + first * sine};
  if (x.size(-1) > 2 * half) parts.push_back(x.narrow(-1, 2 * half, x.size(-1) - 2 * half));
  return at::cat(parts, -1);
}

// A rotation's gradient is the rotation back.
struct RotatePairs : torch::autograd::Function<RotatePairs> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cosine, const Tensor& sine) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({cosine, sine});
    return call_rotate(x, cosine, sine, false);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    return {call_rotate(grads[0], saved[0], saved[1], true), Tensor(), Tensor()};
  }
};

Tensor call_silu(const Tensor& gate, const Tensor& linear) {
  static const auto kernel = find_kernel<Tensor(const Tensor&, const Tensor&)>("openwork::silu_product");
  return kernel.call(gate, linear);
}

struct SiluProduct : torch::autograd::Function<SiluProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& gate, const Tensor& linear) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({gate, linear});
    return call_silu(gate, linear);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const auto kernel =
        find_kernel<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&)>(
            "openwork::silu_product_backward");
    const auto saved = context->get_saved_variables();
    const auto [gate, linear] = kernel.call(grads[0], saved[0], saved[1]);
    return {gate, linear};
  }
};

Tensor call_gelu(const Tensor& x) {
  constexpr int64_t kGrain = 1 << 15;
  const Tensor from = x.contiguous(), to = at::empty_like(from);
  const auto* const source = from.const_data_ptr<float>();
  auto* const target = to.mutable_data_ptr<float>();
  share_range(from.numel(), kGrain, [&](int64_t begin, int64_t end) {
    cpu::choose_kernels().gelu(source + begin, target + begin, end - begin);
  });
  return to;
}

struct GeluTanh : torch::autograd::Function<GeluTanh> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({x});
    return call_gelu(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {at::gelu_backward(grads[0], context->get_saved_variables()[0], "tanh")};
  }
};

// The product into rows padded to the alignment.
struct AlignedProduct : torch::autograd::Function<AlignedProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({x, weight});
    const Tensor out = empty_logits(x, x.size(0), weight.size(0));
    multiply_vocabulary(out, x, weight);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &grad = grads[0];
    Tensor grad_x = at::empty_like(x), grad_weight = at::empty_like(weight);
    multiply_slopes(grad_x, grad, weight);
    for (const auto& [from, count] : vocabulary_parts(x, weight.size(0))) {
      Tensor part = grad_weight.narrow(0, from, count);
      at::mm_out(part, grad.narrow(1, from, count).t(), x);
    }
    return {grad_x, grad_weight};
  }
};

}  // namespace

Tensor rotate_pairs(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  if (is_rowwise(x)) {
    const Tensor turned = at::empty(x.sizes(), x.options());
    turn_rows(x, cosine, sine, turned);
    return turned;
  }
  if (!has_kernel(x)) return rotate_plainly(x, cosine, sine);
  if (at::GradMode::is_enabled()) return RotatePairs::apply(x, cosine, sine);
  at::AutoDispatchBelowADInplaceOrView below_autograd;  // a node nobody asks costs as much as the launch
  return call_rotate(x, cosine, sine, false);
}

Tensor turn_heads(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  return rotate_pairs(x.transpose(1, 2), cosine, sine).transpose(1, 2);
}

Tensor silu_product(const Tensor& gate, const Tensor& linear) {
  if (is_rowwise(gate) && is_rowwise(linear)) return silu_product_rows(gate, linear);
  if (!has_kernel(gate)) return at::silu(gate) * linear;
  if (at::GradMode::is_enabled()) return SiluProduct::apply(gate, linear);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return call_silu(gate, linear);
}

Tensor gelu_tanh(const Tensor& x) {
  if (!x.is_cpu() || x.scalar_type() != at::kFloat) return at::gelu(x, "tanh");
  return at::GradMode::is_enabled() && x.requires_grad() ? GeluTanh::apply(x) : call_gelu(x);
}

bool has_kernel(const Tensor& x) {
  if (!x.is_cuda() || x.scalar_type() == at::kDouble || x.numel() == 0) return false;
  static const auto schema = c10::Dispatcher::singleton().findSchemaOrThrow("openwork::rotate_pairs", "");
  return schema.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

Tensor project_to_vocabulary(const Tensor& x, const Tensor& weight) {
  const bool whole = vocabulary_parts(x, weight.size(0)).size() == 1;
  if (whole || x.numel() == 0) return few_rows_linear(x, weight);
  const Tensor rows = x.reshape({-1, x.size(-1)});
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return AlignedProduct::apply(rows, weight).view(sizes);
}

TORCH_LIBRARY_FRAGMENT(openwork, library) {
  library.def("rotate_pairs(Tensor x, Tensor cosine, Tensor sine, bool back) -> Tensor");
  library.def("silu_product(Tensor gate, Tensor linear) -> Tensor");
  library.def("silu_product_backward(Tensor grad, Tensor gate, Tensor linear) -> (Tensor, Tensor)");
  library.def("cross_entropy(Tensor logits, Tensor targets) -> (Tensor losses, Tensor log_sum_exp)");
  library.def(
      "cross_entropy_backward(Tensor grad, Tensor logits, Tensor targets, Tensor log_sum_exp) -> Tensor");
}

}  // namespace openwork
