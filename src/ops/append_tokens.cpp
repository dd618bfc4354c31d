#include "ops/append_tokens.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include "ops/fused.h"
#include "ops/fused_kernels.h"
#include "ops/rowwise.h"

namespace openwork {
namespace {

using at::Tensor;
using AppendKernel = Tensor(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                            const std::optional<Tensor>&, Tensor&, Tensor&, int64_t);

void check_append(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys, const Tensor& values,
                  int64_t at) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !(q.requires_grad() || k.requires_grad() || v.requires_grad()),
              "append_tokens: gradients are recorded; it has none");
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                  q.size(1) == k.size(1) && q.size(3) == k.size(3),
              "append_tokens: q has shape ", q.sizes(), ", k ", k.sizes(), " and v ", v.sizes(),
              "; [B, T, H, d] and twice [B, T, G, d] are wanted");
  TORCH_CHECK(keys.dim() == 4 && keys.sizes() == values.sizes() && keys.is_contiguous() &&
                  values.is_contiguous() && keys.size(0) == k.size(0) && keys.size(1) == k.size(2) &&
                  keys.size(3) == k.size(3) && at >= 0 && at + k.size(1) <= keys.size(2),
              "append_tokens: a cache of ", keys.sizes(), " has no room for k of ", k.sizes(), " at ", at);
  for (const Tensor* tensor : {&k, &v, &keys, static_cast<const Tensor*>(&values)}) {
    TORCH_CHECK(tensor->scalar_type() == q.scalar_type() && tensor->device() == q.device(),
                "append_tokens: one dtype and one device are wanted");
  }
}

Tensor turn(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  return cosine.defined() ? rotate_pairs(x, cosine, sine) : x;
}

}  // namespace

Tensor append_tokens(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cosine,
                     const Tensor& sine, Tensor& keys, Tensor& values, int64_t at) {
  check_append(q, k, v, keys, values, at);
  if (has_kernel(q)) {
    static const auto kernel = find_kernel<AppendKernel>("openwork::append_tokens");
    const auto table = [](const Tensor& x) { return x.defined() ? std::optional<Tensor>(x) : std::nullopt; };
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return kernel.call(q, k, v, table(cosine), table(sine), keys, values, at);
  }
  if (is_rowwise(q)) {
    turn_rows(k, cosine, sine, keys.narrow(2, at, k.size(1)).transpose(1, 2));
    turn_rows(v, {}, {}, values.narrow(2, at, v.size(1)).transpose(1, 2));
    return turn(q, cosine, sine);
  }
  keys.narrow(2, at, k.size(1)).copy_(turn(k, cosine, sine).transpose(1, 2));
  values.narrow(2, at, v.size(1)).copy_(v.transpose(1, 2));
  return turn(q, cosine, sine);
}

TORCH_LIBRARY_FRAGMENT(openwork, library) {
  library.def(
      "append_tokens(Tensor q, Tensor k, Tensor v, Tensor? cosine, Tensor? sine, Tensor(a!) keys, "
      "Tensor(b!) values, int at) -> Tensor");
}

}  // namespace openwork
