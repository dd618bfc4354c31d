// The small fused operators on the GPU, values and gradients, against the same ATen calls in float64.
#include "ops/cuda_cases.h"
#include "ops/fused.h"
#include "ops/prediction_loss.h"

namespace openwork {
namespace {

using at::Tensor;

class CudaFused : public OnGpu {
 protected:
  // Runs `operation` on the GPU in `dtype` and on the CPU in float64, on the same rounded inputs, backward
  // from the same weights; values and all gradients must agree.
  template <typename Operation>
  void expect_agreement(std::vector<Tensor> inputs, at::ScalarType dtype, double tolerance,
                        Operation operation) {
    std::vector<Tensor> on_gpu, exact;
    for (Tensor& input : inputs) {
      input = input.to(dtype);
      on_gpu.push_back(input.to(gpu_).detach().set_requires_grad(true));
      exact.push_back(input.to(at::kDouble).detach().set_requires_grad(true));
    }
    const Tensor seen = operation(on_gpu), wanted = operation(exact);
    ASSERT_EQ(seen.sizes(), wanted.sizes());
    const Tensor weights = at::randn(wanted.sizes(), at::kDouble).to(dtype);
    (seen * weights.to(gpu_)).sum().backward();
    (wanted * weights.to(at::kDouble)).sum().backward();
    expect_near(seen, wanted, tolerance, "value");
    for (size_t n = 0; n < inputs.size(); ++n) {
      expect_near(on_gpu[n].grad(), exact[n].grad(), tolerance, "gradient of input " + std::to_string(n));
    }
  }

  static void expect_near(const Tensor& seen, const Tensor& wanted, double tolerance,
                          const std::string& what) {
    const Tensor difference = seen.detach().cpu().to(at::kDouble) - wanted.detach();
    EXPECT_LE(difference.norm().item<double>(), tolerance * (wanted.norm().item<double>() + 1e-3)) << what;
  }

  static double tolerance_of(at::ScalarType dtype) {
    return dtype == at::kFloat ? 1e-5 : dtype == at::kHalf ? 2e-3 : 1e-2;
  }
  const std::vector<at::ScalarType> dtypes_ = {at::kFloat, at::kHalf, at::kBFloat16};
};

TEST_F(CudaFused, RotatesAnySizeAndLayout) {
  for (const auto dtype : dtypes_) {
    for (const auto& [d, half] : {std::pair{64, 32}, {80, 10}, {6, 3}, {128, 64}, {20, 6}}) {
      const Tensor angles = at::rand({5, half}, at::kDouble) * 6;
      const auto rotate = [&](const std::vector<Tensor>& in) {
        return rotate_pairs(in[0], angles.cos().to(dtype).to(in[0].options()),
                            angles.sin().to(dtype).to(in[0].options()));
      };
      expect_agreement({at::randn({2, 5, 3, d}, at::kDouble)}, dtype, tolerance_of(dtype), rotate);
      const auto rotate_part = [&](const std::vector<Tensor>& in) { return rotate({in[0].narrow(3, 1, d)}); };
      expect_agreement({at::randn({2, 5, 3, d + 3}, at::kDouble)}, dtype, tolerance_of(dtype), rotate_part);
    }
  }
}

TEST_F(CudaFused, MultipliesBySiluAtAnyCount) {
  for (const auto dtype : dtypes_) {
    for (const int64_t count : {1, 7, 8, 1000, 4096}) {
      expect_agreement({at::randn({3, count}, at::kDouble) * 4, at::randn({3, count}, at::kDouble)}, dtype,
                       tolerance_of(dtype),
                       [](const std::vector<Tensor>& in) { return silu_product(in[0], in[1]); });
    }
  }
}

TEST_F(CudaFused, PredictionLossAgreesForAlignedAndOddVocabularies) {
  for (const auto dtype : dtypes_) {
    for (const int64_t V : {1, 5, 1003, 8192, 50257}) {
      for (const int64_t taught : {0, 5}) {
        const Tensor targets = at::randint(V, {14}, at::kLong);
        const Tensor hidden = at::randn({taught, 24}, at::kDouble).to(dtype),
                     matrix = at::randn({V, 24}, at::kDouble).to(dtype);
        expect_agreement(
            {at::randn({14, 16}, at::kDouble), at::randn({V, 16}, at::kDouble)}, dtype,
            2 * tolerance_of(dtype), [&](const std::vector<Tensor>& in) {
              TeacherRows teacher;
              if (taught > 0) teacher = {hidden.to(in[0].options()), {matrix.to(in[0].options()), {}}, 0.2};
              return prediction_loss(in[0], {in[1], {}}, targets.to(in[0].device()), teacher, 4).loss;
            });
      }
    }
  }
}

TEST_F(CudaFused, PredictionLossStaysFiniteAtVeryLargeLogits) {
  const Tensor logits =
      at::tensor({3e4f, -3e4f, 0.f, -3e4f, -3e4f, -3e4f}).view({2, 3}).to(gpu_).set_requires_grad(true);
  const Tensor loss =
      prediction_loss(logits, {at::eye(3).to(gpu_), {}}, at::tensor({0, 2}, at::kLong).to(gpu_)).loss;
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), std::log(3.0) / 2, 1e-5);
  EXPECT_TRUE(logits.grad().isfinite().all().item<bool>());
}

TEST_F(CudaFused, ProjectsToOddVocabularies) {
  for (const int64_t V : {1, 50, 1003}) {
    expect_agreement({at::randn({2, 7, 16}, at::kDouble), at::randn({V, 16}, at::kDouble)}, at::kBFloat16,
                     1e-2, [](const std::vector<Tensor>& in) { return project_to_vocabulary(in[0], in[1]); });
  }
}

}  // namespace
}  // namespace openwork
