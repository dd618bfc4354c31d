#include "ops/split.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace openwork {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

int64_t step_between(const Tensor& first, const Tensor& second) {
  return second.storage_offset() - first.storage_offset();
}

// The rows [..., 3 n] that parts [..., n] are thirds of, dense and in order; undefined where they are not.
Tensor rows_of_thirds(const variable_list& parts, at::IntArrayRef sizes) {
  const Tensor& first = parts[0];
  const int64_t width = sizes.back() / 3;
  if (!are_thirds(first, parts[1], parts[2]) || step_between(first, parts[1]) != width) return {};
  const Tensor rows = first.as_strided(sizes, c10::contiguous_strides(sizes));
  return rows.narrow(-1, 0, width).strides() == first.strides() ? rows : Tensor();
}

struct SplitInThree : torch::autograd::Function<SplitInThree> {
  static variable_list forward(AutogradContext* context, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->saved_data["sizes"] = x.sizes();
    context->set_materialize_grads(false);
    return x.chunk(3, -1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const std::vector<int64_t> sizes = context->saved_data["sizes"].toIntVector();
    variable_list parts = grads;
    const auto any = std::ranges::find_if(grads, [](const Tensor& grad) { return grad.defined(); });
    if (any == grads.end()) return {Tensor()};
    auto third = sizes;
    third.back() /= 3;
    for (Tensor& part : parts) {
      if (!part.defined()) part = at::zeros(third, any->options());
    }
    const Tensor rows = rows_of_thirds(parts, sizes);
    return {rows.defined() ? rows : at::cat(parts, -1)};
  }
};

}  // namespace

bool are_thirds(const Tensor& first, const Tensor& second, const Tensor& third) {
  const int64_t step = step_between(first, second);
  for (const Tensor* other : {&second, &third}) {
    if (!first.is_alias_of(*other) || first.scalar_type() != other->scalar_type() ||
        first.sizes() != other->sizes() || first.strides() != other->strides())
      return false;
  }
  if (first.numel() == 0 || step <= 0 || step_between(second, third) != step) return false;
  std::vector<int64_t> sizes = {3}, strides = {step};
  sizes.insert(sizes.end(), first.sizes().begin(), first.sizes().end());
  strides.insert(strides.end(), first.strides().begin(), first.strides().end());
  return first.as_strided(sizes, strides).is_non_overlapping_and_dense();
}

std::array<Tensor, 3> empty_thirds(const Tensor& first, const Tensor& second, const Tensor& third) {
  const Tensor room = at::empty({3 * first.numel()}, first.options());
  const auto at_place = [&](const Tensor& like) {
    const int64_t begin = step_between(first, like);
    return room.narrow(0, begin, room.numel() - begin).as_strided(like.sizes(), like.strides());
  };
  return {at_place(first), at_place(second), at_place(third)};
}

std::array<Tensor, 3> split_in_three(const Tensor& x) {
  const std::vector<Tensor> parts =
      at::GradMode::is_enabled() && x.requires_grad() ? SplitInThree::apply(x) : x.chunk(3, -1);
  return {parts[0], parts[1], parts[2]};
}

}  // namespace openwork
