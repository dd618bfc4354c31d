// Gated attention that turns queries and keys itself, on a GPU: gradients of whole heads come back turned from the
// kernels of Hopper's fused pass, all others from a kernel of their own.
#include "ops/cuda_cases.h"
#include "ops/turned_cases.h"

namespace openwork {
namespace {

class CudaTurned : public OnGpu {};

TEST_F(CudaTurned, IsTurningAndGatedAttentionOneAfterTheOther) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf, at::kFloat}) {
    for (const AttentionCase& of : test_cases(dtype)) {
      const AttentionInputs inputs = make_inputs(of).to(gpu_);
      for (const int64_t half : {of.d / 2, of.d / 8}) {
        // Of low precision one rounding of a gradient differs.
        if (half > 0) expect_turned_as_in_two(of, inputs, half, dtype == at::kFloat ? 1e-5 : 8e-3);
      }
    }
  }
}

TEST_F(CudaTurned, LongRowsOfManyHeadsAgree) {
  for (const Shape& shape : {Shape{3, 9, 3, 500, 64}, {2, 6, 6, 321, 128}, {1, 4, 1, 1000, 64}}) {
    AttentionCase of{shape.B, shape.H, shape.Hkv, shape.T, shape.d, at::kBFloat16};
    set_gate(of, kGateIdle);
    of.seed = 5;
    for (const bool transposed : {false, true}) {
      of.transposed = transposed;
      expect_turned_as_in_two(of, make_inputs(of).to(gpu_), shape.d / 2, 8e-3);
    }
  }
}

TEST_F(CudaTurned, TheDeterministicPassTurnsThemToo) {
  AttentionCase of{2, 4, 2, 130, 64, at::kBFloat16};
  set_gate(of, kGateLogProb);
  of.seed = 11;
  const AttentionInputs inputs = make_inputs(of).to(gpu_);
  at::globalContext().setDeterministicAlgorithms(true, false);
  expect_turned_as_in_two(of, inputs, 32, 0);
  at::globalContext().setDeterministicAlgorithms(false, false);
}

}  // namespace
}  // namespace openwork
