// The cases that gated attention is tested on, on every device: sizes on both sides of every tile and vector
// boundary, grouped queries, every gate, hard and sampled, sharpness, offsets and layouts.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/attention_case.h"

namespace openwork {

// How two results differ: the largest difference over the larger of 1 and the wanted result's largest number.
inline double relative_error(const at::Tensor& seen, const at::Tensor& wanted) {
  EXPECT_EQ(seen.sizes(), wanted.sizes());
  if (wanted.numel() == 0) return 0;
  const auto difference =
      (seen.to(at::kDouble).cpu() - wanted.to(at::kDouble).cpu()).abs().max().item<double>();
  return difference / std::max(1.0, wanted.to(at::kDouble).abs().max().item<double>());
}

struct NamedTensor {
  const char* name;
  at::Tensor value;
};

// out, penalty and the four or (gate idle) five gradients, with their names. `active` is left out: it is a
// count.
inline std::vector<NamedTensor> named_results(const AttentionGradients& of) {
  std::vector<NamedTensor> results = {{"out", of.result.out}, {"penalty", of.result.penalty},
                                      {"grad_q", of.q},       {"grad_k", of.k},
                                      {"grad_v", of.v},       {"grad_bias", of.bias}};
  if (of.idle.defined()) results.push_back({"grad_idle", of.idle});
  return results;
}

struct Shape {
  int64_t B, H, Hkv, T, d;
};

inline std::vector<Shape> test_shapes() {
  return {{1, 1, 1, 1, 1},   {1, 1, 1, 1, 64},   {2, 3, 3, 17, 8},    {1, 2, 1, 63, 32},  {1, 2, 2, 64, 64},
          {2, 4, 2, 65, 80}, {1, 3, 1, 128, 96}, {1, 2, 2, 130, 128}, {1, 1, 1, 191, 33}, {1, 2, 1, 200, 256},
          {3, 2, 2, 5, 3},   {1, 6, 3, 97, 48},  {2, 1, 1, 257, 16},  {1, 1, 1, 66, 100}, {5, 3, 1, 2, 2}};
}

inline constexpr std::string_view kAllGates[] = {kGateScore, kGateLogProb, kGateIdle};

// The case's gate, with the biases and idle scores that leave random edges partly open.
inline void set_gate(AttentionCase& of, std::string_view gate) {
  of.gate = std::string(gate);
  of.bias = gate == kGateScore ? -0.5 : std::log(1.0 + static_cast<double>(of.T) / 3);
  of.idle = gate == kGateIdle ? std::log(1.0 + static_cast<double>(of.T)) : 0;
}

// Every shape with every kind of gate, in one dtype: plain, and with a sharpness of 2 or 4 by turns.
inline std::vector<AttentionCase> test_cases(at::ScalarType dtype) {
  std::vector<AttentionCase> cases;
  for (const Shape& shape : test_shapes()) {
    for (const auto gate : kAllGates) {
      for (const bool sampled : {false, true}) {
        AttentionCase of;
        of.B = shape.B, of.H = shape.H, of.Hkv = shape.Hkv, of.T = shape.T, of.d = shape.d;
        of.dtype = dtype;
        set_gate(of, gate);
        if (sampled) of.seed = 0x123456789ABCDEF + shape.T;
        of.first = sampled ? shape.T % 5 : 0;
        of.transposed = (shape.T + shape.d) % 2 == 1;
        cases.push_back(of);
        of.sharpness = cases.size() % 4 == 1 ? 2 : 4;
        cases.push_back(of);
      }
    }
  }
  return cases;
}

}  // namespace openwork
