// The arguments of gated_attention, checked in one place for every device, and the types of its kernels.
// A failed check names the argument, the value seen and the value wanted.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "base/gate_kind.h"

namespace openwork {

// What a device registers, as the dispatcher types it (schemas in gated_attention.cpp). The forward kernel
// also returns the row log-sum-exp and, where asked (keep_slopes), the rows' slopes (wants_slopes, below); the
// backward kernel the gradients of q, k, v, bias and idle, the last one [0] where there is no idle. The seed may
// be symbolic, so that a compiled graph serves every seed; a kernel that computes takes it as
// std::optional<int64_t>.
using Seed = std::optional<c10::SymInt>;
// The operator itself, openwork::gated_attention.
using Operator = std::tuple<at::Tensor, at::Tensor, at::Tensor>(const at::Tensor& q, const at::Tensor& k,
                                                                const at::Tensor& v, const at::Tensor& bias,
                                                                const std::optional<at::Tensor>& idle,
                                                                std::string_view gate, Seed seed,
                                                                int64_t first, std::optional<double> scale,
                                                                double sharpness);
// As the schema has them.
using ForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using ForwardKernel = ForwardResult(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const at::Tensor& bias, const std::optional<at::Tensor>& idle,
                                    std::string_view gate, Seed seed, int64_t first, double scale,
                                    double sharpness, bool keep_slopes);
using BackwardKernel = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& grad_out, const at::Tensor& grad_penalty, const at::Tensor& q, const at::Tensor& k,
    const at::Tensor& v, const at::Tensor& bias, const std::optional<at::Tensor>& idle, const at::Tensor& out,
    const at::Tensor& log_sum_exp, const at::Tensor& slope_rows, const at::Tensor& slope_sums,
    std::string_view gate, Seed seed, int64_t first, double scale, double sharpness,
    const std::optional<at::Tensor>& cosine, const std::optional<at::Tensor>& sine);

// openwork::gated_inference, as it is called and as a device registers it.
using InferenceKernel = at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const std::optional<at::Tensor>& bias,
                                   const std::optional<at::Tensor>& idle,
                                   const std::optional<at::Tensor>& key_of_query, std::string_view gate,
                                   std::optional<double> scale);

// The gate of that name; anything else fails.
GateKind gate_of(std::string_view gate);
// The same for gated_inference, which knows 'none' too.
GateKind inference_gate_of(std::string_view gate);

// Shapes, dtypes and devices of gated_attention's inputs. Sizes may be symbolic (meta and fake tensors).
void check_gated_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& bias, const std::optional<at::Tensor>& idle,
                           std::string_view gate, int64_t first, double sharpness);

// The same for gated_attention_backward: what forward was given, what it returned, and the two gradients.
void check_gated_attention_backward(const at::Tensor& grad_out, const at::Tensor& grad_penalty,
                                    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const at::Tensor& bias, const std::optional<at::Tensor>& idle,
                                    const at::Tensor& out, const at::Tensor& log_sum_exp,
                                    std::string_view gate, int64_t first, double sharpness);

// Backward's tables of rotary positions, [T, half] both, or none: given where q and k were turned by them (rotate_pairs of
// fused.h), and then the gradients are those of what was turned. True where there are some.
bool check_turns(const std::optional<at::Tensor>& cosine, const std::optional<at::Tensor>& sine,
                 const at::Tensor& q);

// The same for gated_inference: T queries at the end of K keys, gates hard.
void check_gated_inference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& idle,
                           const std::optional<at::Tensor>& key_of_query, std::string_view gate);

// The sum of a row's gate gradients is linear in its dy and in dpenalty, so what multiplies them can be summed
// in forward (docs/operator.md, 'The GPU kernels'):
//   slope_rows  [B, H, T, slope_width] in q's dtype, where gates are sampled
//   slope_sums  [B, H, T] float32
// [0] where they are not kept. A backward pass that is given none does without.
// True where a kernel wants them: on a GPU, for logprob and idle, of some dtypes and head sizes. (A GPU whose kernels do
// not fills neither; the sizes are the same, so that a graph compiled without looking at the GPU is right.)
bool wants_slopes(at::DeviceType device, GateKind gate, at::ScalarType dtype, const c10::SymInt& head_size);
bool wants_slopes(const at::Tensor& q, std::string_view gate);
// The head size that the kernels which keep slopes pad q's to; 0 where there are none.
int64_t slope_width(at::ScalarType dtype, const c10::SymInt& head_size);
int64_t slope_width(const at::Tensor& q);
// Room for them, or two of [0].
std::tuple<at::Tensor, at::Tensor> make_slopes(const at::Tensor& q, bool sampled, bool keep);
// True where backward was given them; of other sizes or dtypes than make_slopes', they fail.
bool check_slopes(const at::Tensor& slope_rows, const at::Tensor& slope_sums, const at::Tensor& q,
                  bool sampled);

// The scale given, or 1/sqrt(d).
double scale_of(const at::Tensor& q, std::optional<double> scale);

// The dtype of penalty and of the row log-sum-exp: float64 when q is, else float32.
at::ScalarType sum_dtype(const at::Tensor& q);

}  // namespace openwork
