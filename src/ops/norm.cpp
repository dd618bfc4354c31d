#include "ops/norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/cuda/limits.h"
#include "ops/fused_kernels.h"
#include "ops/rowwise.h"

namespace openwork {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;

MaybeTensor maybe(const Tensor& x) {
  return x.defined() ? MaybeTensor(x) : std::nullopt;
}

// {x + added (empty where nothing is added), its norm, means, scales}
std::tuple<Tensor, Tensor, Tensor, Tensor> call_kernel(const Tensor& x, const MaybeTensor& added,
                                                       const MaybeTensor& weight, const MaybeTensor& bias,
                                                       double epsilon, bool centred) {
  static const auto kernel = find_kernel<std::tuple<Tensor, Tensor, Tensor, Tensor>(
      const Tensor&, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&, double, bool)>(
      "openwork::normalise_rows");
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return kernel.call(x, added, weight, bias, epsilon, centred);
}

// The gradient of a norm's weight or bias: to be written, or one that is added to.
MaybeTensor room_for(const Tensor& parameter, bool adds) {
  if (!parameter.defined() || !parameter.requires_grad()) return std::nullopt;
  return adds ? parameter.grad() : at::empty(parameter.sizes(), parameter.options());
}

struct NormaliseSum : torch::autograd::Function<NormaliseSum> {
  static variable_list forward(AutogradContext* context, const Tensor& x, const MaybeTensor& added,
                               const MaybeTensor& weight, const MaybeTensor& bias, double epsilon,
                               bool centred, bool adds_to_grad) {
    const auto [made, normal, mean, scale] = call_kernel(x, added, weight, bias, epsilon, centred);
    const Tensor& sum = added ? made : x;
    context->save_for_backward({sum, mean, scale, weight.value_or(Tensor()), bias.value_or(Tensor())});
    context->saved_data["added"] = added.has_value();
    context->saved_data["centred"] = centred;
    context->saved_data["adds_to_grad"] = adds_to_grad;
    context->set_materialize_grads(false);
    return {sum, normal};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const auto kernel =
        find_kernel<Tensor(const Tensor&, const MaybeTensor&, const Tensor&, const Tensor&, const Tensor&,
                           const MaybeTensor&, bool, const MaybeTensor&, const MaybeTensor&, bool)>(
            "openwork::normalise_rows_backward");
    const auto saved = context->get_saved_variables();
    const auto flag = [&](const char* name) { return context->saved_data[name].toBool(); };
    const bool adds = flag("adds_to_grad");
    const auto result = [&](const Tensor& x, const MaybeTensor& weight,
                            const MaybeTensor& bias) -> variable_list {
      const auto arrives = [&](const MaybeTensor& grad) { return grad && !adds ? *grad : Tensor(); };
      return {x, flag("added") ? x : Tensor(), arrives(weight), arrives(bias), Tensor(), Tensor(), Tensor()};
    };
    if (!grads[1].defined()) return result(grads[0], {}, {});
    const MaybeTensor beside = grads[0].defined() ? MaybeTensor(as_whole_rows(grads[0])) : std::nullopt;
    const MaybeTensor weight = room_for(saved[3], adds), bias = room_for(saved[4], adds);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Tensor x = kernel.call(as_whole_rows(grads[1]), beside, saved[0], saved[1], saved[2],
                                 maybe(saved[3]), flag("centred"), weight, bias, adds);
    return result(x, weight, bias);
  }
};

// adds_to_grad, where there is something to add to.
bool adds_to_grads(const RowNorm& norm) {
  const auto fits = [](const Tensor& x) { return !x.defined() || !x.requires_grad() || x.grad().defined(); };
  return norm.adds_to_grad && fits(norm.weight) && fits(norm.bias);
}

// With gradients and without, so that a layer run again gives the bits of its first run; but for the few rows of a step
// of generation, where there is nothing to save.
bool wants_kernel(const Tensor& x, const Tensor& added, const RowNorm& norm) {
  constexpr int64_t kFewRows = 16;
  if (!has_kernel(x) || (!at::GradMode::is_enabled() && x.numel() <= kFewRows * x.size(-1))) return false;
  const auto fits = [&](const Tensor& other) {
    return !other.defined() || (other.scalar_type() == x.scalar_type() && has_whole_rows(other));
  };
  return has_whole_rows(x) && x.size(-1) * x.element_size() <= cuda::kMostNormBytes && fits(added) &&
         fits(norm.weight) && fits(norm.bias) && (!added.defined() || added.sizes() == x.sizes());
}

Tensor normalise_plainly(const Tensor& x, const RowNorm& norm) {
  if (norm.centred)
    return at::layer_norm(x, {x.size(-1)}, maybe(norm.weight), maybe(norm.bias), norm.epsilon);
  const Tensor& weight = norm.weight;
  const bool graded = at::GradMode::is_enabled() && weight.defined() && weight.requires_grad();
  const bool alike = !weight.defined() || weight.scalar_type() == x.scalar_type();
  if (alike && !graded && is_rowwise(x)) return rms_norm_rows(x, weight, norm.epsilon);
  return at::rms_norm(x, {x.size(-1)}, maybe(weight), norm.epsilon);
}

}  // namespace

NormedSum normalise_sum(const Tensor& x, const Tensor& added, const RowNorm& norm) {
  if (wants_kernel(x, added, norm)) {
    const MaybeTensor more = maybe(added), weight = maybe(norm.weight), bias = maybe(norm.bias);
    if (at::GradMode::is_enabled()) {
      const variable_list made =
          NormaliseSum::apply(x, more, weight, bias, norm.epsilon, norm.centred, adds_to_grads(norm));
      return {made[0], made[1]};
    }
    const auto [sum, normal, mean, scale] = call_kernel(x, more, weight, bias, norm.epsilon, norm.centred);
    return {more ? sum : x, normal};
  }
  const Tensor sum = added.defined() ? x + added : x;
  return {sum, normalise_plainly(sum, norm)};
}

Tensor normalise(const Tensor& x, const RowNorm& norm) {
  return normalise_sum(x, {}, norm).normal;
}

TORCH_LIBRARY_FRAGMENT(openwork, library) {
  library.def(
      "normalise_rows(Tensor x, Tensor? added, Tensor? weight, Tensor? bias, float epsilon, bool centred)"
      " -> (Tensor sum, Tensor normal, Tensor mean, Tensor scale)");
  library.def(
      "normalise_rows_backward(Tensor grad_normal, Tensor? grad_sum, Tensor sum, Tensor mean, Tensor scale,"
      " Tensor? weight, bool centred, Tensor(a!)? grad_weight, Tensor(b!)? grad_bias, bool adds) -> Tensor");
}

}  // namespace openwork
