// gated_inference: its schema, the C++ door, shapes for meta tensors, and a word to those who ask for gradients.
// The kernels are in cpu/ and cuda/.
#include "ops/gated_inference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include "ops/arguments.h"
#include "ops/cuda/limits.h"
#include "ops/fused_kernels.h"

namespace openwork {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

MaybeTensor maybe(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

const auto& inference_operator() {
  static const auto handle = find_kernel<InferenceKernel>("openwork::gated_inference");
  return handle;
}

Tensor refuse_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& bias,
                       const MaybeTensor& idle, const MaybeTensor& key_of_query, std::string_view gate,
                       std::optional<double> scale) {
  const bool asked = q.requires_grad() || k.requires_grad() || v.requires_grad() ||
                     (bias && bias->requires_grad()) || (idle && idle->requires_grad());
  TORCH_CHECK(!(asked && at::GradMode::is_enabled()),
              "gated_inference: a gradient was asked for and there is none; use openwork::gated_attention, "
              "or torch.no_grad()");
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return inference_operator().call(q, k, v, bias, idle, key_of_query, gate, scale);
}

Tensor inference_shape(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& bias,
                       const MaybeTensor& idle, const MaybeTensor& key_of_query, std::string_view gate,
                       std::optional<double>) {
  check_gated_inference(q, k, v, bias, idle, key_of_query, gate);
  return at::empty_symint(q.sym_sizes(), q.options());
}

}  // namespace

Tensor gated_inference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                       const Tensor& idle, GateKind gate, double scale, const Tensor& key_of_query) {
  return inference_operator().call(q, k, v, maybe(bias), maybe(idle), maybe(key_of_query), gate_name(gate),
                                   scale);
}

bool is_quick_inference(const Tensor& q, int64_t keys) {
  if (q.is_cpu()) return true;
  const int64_t queries = q.size(2);
  return has_kernel(q) && q.size(3) <= cuda::kLargestSize &&
         (queries == keys || keys <= cuda::kShortCache || queries <= cuda::kFewQueries);
}

TORCH_LIBRARY_FRAGMENT(openwork, library) {
  library.def(
      "gated_inference(Tensor q, Tensor k, Tensor v, Tensor? bias=None, Tensor? idle=None, "
      "Tensor? key_of_query=None, *, str gate=\"score\", float? scale=None) -> Tensor");
}
TORCH_LIBRARY_IMPL(openwork, Autograd, library) {
  library.impl("gated_inference", refuse_gradient);
}
TORCH_LIBRARY_IMPL(openwork, Meta, library) {
  library.impl("gated_inference", inference_shape);
}

}  // namespace openwork
