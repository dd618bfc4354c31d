// The cases that gated attention is tested on, on every device: sizes on both sides of every tile and vector
// boundary, grouped queries, both gates, hard and sampled, offsets and layouts.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/attention_case.h"

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

// out, penalty and the four gradients, with their names. `active` is left out: it is a count.
inline std::vector<NamedTensor> named_results(const AttentionGradients& of) {
  return {{"out", of.result.out}, {"penalty", of.result.penalty}, {"grad_q", of.q}, {"grad_k", of.k},
          {"grad_v", of.v},       {"grad_bias", of.bias}};
}

struct Shape {
  int64_t B, H, Hkv, T, d;
};

inline std::vector<Shape> test_shapes() {
  return {{1, 1, 1, 1, 1},   {1, 1, 1, 1, 64},   {2, 3, 3, 17, 8},    {1, 2, 1, 63, 32},  {1, 2, 2, 64, 64},
          {2, 4, 2, 65, 80}, {1, 3, 1, 128, 96}, {1, 2, 2, 130, 128}, {1, 1, 1, 191, 33}, {1, 2, 1, 200, 256},
          {3, 2, 2, 5, 3},   {1, 6, 3, 97, 48},  {2, 1, 1, 257, 16},  {1, 1, 1, 66, 100}, {5, 3, 1, 2, 2}};
}

// Every shape with every kind of gate, in one dtype.
inline std::vector<AttentionCase> test_cases(at::ScalarType dtype) {
  std::vector<AttentionCase> cases;
  for (const Shape& shape : test_shapes()) {
    for (const auto gate : {kGateScore, kGateLogProb}) {
      for (const bool sampled : {false, true}) {
        AttentionCase of;
        of.B = shape.B, of.H = shape.H, of.Hkv = shape.Hkv, of.T = shape.T, of.d = shape.d;
        of.dtype = dtype;
        of.gate = std::string(gate);
        if (sampled) of.seed = 0x123456789ABCDEF + shape.T;
        of.first = sampled ? shape.T % 5 : 0;
        of.transposed = (shape.T + shape.d) % 2 == 1;
        of.bias = gate == kGateLogProb ? std::log(1.0 + static_cast<double>(shape.T) / 3) : -0.5;
        cases.push_back(of);
      }
    }
  }
  return cases;
}

}  // namespace openwork
