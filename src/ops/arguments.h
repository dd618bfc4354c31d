// The arguments of gated_attention, checked in one place for every device.
// A failed check names the argument, the value seen and the value wanted.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace openwork {

enum class Gate { kScore, kLogProb };

// "score" or "logprob"; anything else fails.
Gate parse_gate(std::string_view gate);

// Shapes, dtypes and devices of gated_attention's inputs. Sizes may be symbolic (meta and fake tensors).
void check_gated_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& bias, std::string_view gate, int64_t first);

// The same for gated_attention_backward: what forward was given, what it returned, and the two gradients.
void check_gated_attention_backward(const at::Tensor& grad_out, const at::Tensor& grad_penalty,
                                    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const at::Tensor& bias, const at::Tensor& out,
                                    const at::Tensor& log_sum_exp, std::string_view gate, int64_t first);

// The scale given, or 1/sqrt(d).
double scale_of(const at::Tensor& q, std::optional<double> scale);

// The dtype of penalty and of the row log-sum-exp: float64 when q is, else float32.
at::ScalarType sum_dtype(const at::Tensor& q);

}  // namespace openwork
