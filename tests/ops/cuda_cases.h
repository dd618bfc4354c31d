// What the GPU tests share: a fixture that skips where there is no GPU, and the yardstick for low precision.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cases.h"

namespace openwork {

inline bool has_gpu() {
  static const bool found = load_cuda_operators() && at::globalContext().hasCUDA() && at::getNumGPUs() > 0;
  return found;
}

// Tests derived from this run on the first GPU, or say why they do not.
class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here, or the GPU kernels are not built";
    at::manual_seed(7);
  }
  const at::Device gpu_{at::kCUDA, 0};
};

// A test's name after the gate it is of.
inline std::string name_of_gate(const testing::TestParamInfo<std::string_view>& info) {
  return std::string(info.param);
}

// Edges so close to their threshold that float32 may open them differently: |r g + logit u| <= 1e-3, in
// float64.
inline at::Tensor is_undecided(const AttentionCase& of, const AttentionInputs& inputs) {
  const AttentionInputs exact = inputs.to(at::kDouble);
  const at::Tensor keys = exact.k.repeat_interleave(of.H / of.Hkv, 1);
  const at::Tensor S = exact.q.matmul(keys.transpose(-2, -1)) / std::sqrt(static_cast<double>(of.d));
  const at::Tensor causal = at::ones({of.T, of.T}, at::kBool).tril();
  const at::Tensor masked = S.masked_fill(~causal, -INFINITY);
  at::Tensor g = of.gate == kGateScore ? S : masked.log_softmax(-1).masked_fill(~causal, 0);
  if (of.gate == kGateIdle) {
    g = g + at::log_sigmoid(masked.logsumexp(-1, true) - exact.idle.view({of.H, 1, 1}));
  }
  g = of.sharpness * (g + exact.bias.view({of.H, 1, 1}));
  if (of.seed) {
    const at::Tensor u = gate_uniforms(of.B, of.H, of.T, *of.seed, of.first);
    g = g + u.log() - at::log1p(-u);
  }
  return (g.abs() <= 1e-3).logical_and(causal);  // [B, H, T, T]
}

}  // namespace openwork
