// gated_attention under torch.autocast: q, k and v are taken in the dtype autocast asks for, like those of
// scaled_dot_product_attention. bias and idle are left as they are: a gate's threshold is not rounded.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/arguments.h"

namespace openwork {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

template <c10::DeviceType device>
std::tuple<Tensor, Tensor, Tensor> cast(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                                        const MaybeTensor& idle, std::string_view gate, Seed seed,
                                        int64_t first, std::optional<double> scale, double sharpness) {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("openwork::gated_attention", "").typed<Operator>();
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::DispatchKeySet(at::autocast::get_autocast_dispatch_key_from_device_type(device)));
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(device);
  const auto taken = [&](const Tensor& tensor) { return at::autocast::cached_cast(dtype, tensor, device); };
  return handle.call(taken(q), taken(k), taken(v), bias, idle, gate, seed, first, scale, sharpness);
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, AutocastCPU, library) {
  library.impl("gated_attention", cast<c10::DeviceType::CPU>);
}

TORCH_LIBRARY_IMPL(openwork, AutocastCUDA, library) {
  library.impl("gated_attention", cast<c10::DeviceType::CUDA>);
}

}  // namespace openwork
