// The cases that append_tokens is tested on, on every device.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "ops/append_tokens.h"

namespace openwork {

struct AppendCase {
  int64_t B, T, H, G, d, half, capacity, at;  // half 0: nothing is turned
};
inline std::vector<AppendCase> append_cases() {
  return {{1, 1, 9, 3, 64, 32, 40, 17}, {2, 3, 4, 4, 32, 0, 9, 6},    {1, 5, 6, 2, 80, 10, 5, 0},
          {3, 1, 2, 1, 6, 3, 4, 3},     {1, 2, 3, 3, 128, 64, 64, 1}, {2, 1, 5, 5, 7, 0, 3, 0}};
}

struct AppendInputs {
  at::Tensor q, k, v;       // q and k parts of one projection, as models have them
  at::Tensor cosine, sine;  // [T, half]; undefined where nothing is turned
};
inline AppendInputs make_append_inputs(const AppendCase& of, at::ScalarType dtype) {
  at::manual_seed(11);
  const at::Tensor all =
      at::randn({of.B, of.T, of.H + 2 * of.G, of.d}, at::kDouble).to(dtype);  // [B, T, heads, d]
  AppendInputs in{
      all.narrow(2, 0, of.H), all.narrow(2, of.H, of.G), all.narrow(2, of.H + of.G, of.G), {}, {}};
  if (of.half == 0) return in;
  const at::Tensor angles = at::rand({of.T, of.half}, at::kDouble) * 6;
  in.cosine = angles.cos().to(dtype), in.sine = angles.sin().to(dtype);
  return in;
}

struct AppendResult {
  at::Tensor q, keys, values;
};
// Into a cache full of sevens.
inline AppendResult run_append(const AppendCase& of, const AppendInputs& in, at::Device device) {
  const auto there = [&](const at::Tensor& x) { return x.defined() ? x.to(device) : x; };
  at::Tensor keys = at::full({of.B, of.G, of.capacity, of.d}, 7, in.q.options().device(device)),
             values = keys.clone();
  const at::Tensor all = there(at::cat({in.q, in.k, in.v}, 2));
  const auto part = [&](const at::Tensor& x, int64_t from, int64_t count) {
    return x.requires_grad() ? x : all.narrow(2, from, count);
  };
  const at::Tensor q =
      append_tokens(part(in.q, 0, of.H), part(in.k, of.H, of.G), part(in.v, of.H + of.G, of.G),
                    there(in.cosine), there(in.sine), keys, values, of.at);
  return {q.cpu(), keys.cpu(), values.cpu()};
}

}  // namespace openwork
