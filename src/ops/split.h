// The three thirds of rows that one product has made, queries, keys and values, as views of them. Where their gradients
// come back as thirds of one buffer too, as gated attention's do on a GPU, that buffer is the gradient and nothing is
// copied; else they are put together as at::chunk would.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>

namespace openwork {

// x [..., 3 n] -> [..., n] each. The parts must not be written to where gradients are asked for.
std::array<at::Tensor, 3> split_in_three(const at::Tensor& x);

// Whether the tensors, of one shape and one layout, are thirds of one stretch of memory that they fill: what the thirds
// of dense rows are, and any views of them that go through all of it.
bool are_thirds(const at::Tensor& first, const at::Tensor& second, const at::Tensor& third);

// Room laid out as three such tensors are.
std::array<at::Tensor, 3> empty_thirds(const at::Tensor& first, const at::Tensor& second,
                                       const at::Tensor& third);

}  // namespace openwork
