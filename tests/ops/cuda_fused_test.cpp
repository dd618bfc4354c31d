// The small fused operators on the GPU, values and gradients, against the same ATen calls in float64.
#include "ops/cuda_cases.h"
#include "ops/fused.h"
#include "ops/linear.h"
#include "ops/norm.h"
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

// Rows of a warp, of a block, of what no vector covers and of what no block holds.
TEST_F(CudaFused, NormalisesRowsOfAnySize) {
  for (const auto dtype : dtypes_) {
    for (const int64_t d : {8, 24, 256, 576, 1024, 1032, 4096, 8192, 9000, 13}) {
      for (const bool centred : {false, true}) {
        const auto row = [d] { return at::randn({5, 3, d}, at::kDouble) + 0.5; };
        const Tensor weight = at::rand({d}, at::kDouble) + 0.5, bias = at::randn({d}, at::kDouble);
        const auto norm = [&](const std::vector<Tensor>& in, const Tensor& added) {
          const RowNorm with{in[1], centred ? in[2] : Tensor(), 1e-3, centred};
          return normalise_sum(in[0], added, with);
        };
        expect_agreement({row(), weight, bias, row()}, dtype, tolerance_of(dtype),
                         [&](const std::vector<Tensor>& in) {
                           const NormedSum made = norm(in, in[3]);
                           return at::cat({made.sum, made.normal}) + 0 * in[2];
                         });
        expect_agreement({row(), weight, bias}, dtype, tolerance_of(dtype),
                         [&](const std::vector<Tensor>& in) {
                           const NormedSum made = norm(in, {});
                           return at::cat({made.sum * 2, made.normal}) + 0 * in[2];
                         });
        expect_agreement({row()}, dtype, tolerance_of(dtype), [&](const std::vector<Tensor>& in) {
          return normalise(in[0], {{}, {}, 1e-3, centred});
        });
        expect_agreement({row(), row()}, dtype, tolerance_of(dtype), [&](const std::vector<Tensor>& in) {
          return normalise_sum(in[0], in[1], {{}, {}, 1e-3, centred}).sum;  // the norm is not looked at
        });
      }
    }
  }
}

// More rows than the blocks going back take at once.
TEST_F(CudaFused, NormalisesManyRows) {
  for (const auto& [rows, d] : {std::pair{3001, 576}, {1501, 4096}, {9001, 64}}) {
    for (const bool centred : {false, true}) {
      const auto make = [&, rows = rows, d = d] { return at::randn({rows, d}, at::kDouble) + 0.5; };
      expect_agreement({make(), at::rand({d}, at::kDouble) + 0.5, at::randn({d}, at::kDouble), make()},
                       at::kFloat, 1e-5, [&](const std::vector<Tensor>& in) {
                         const NormedSum made =
                             normalise_sum(in[0], in[3], {in[1], centred ? in[2] : Tensor(), 1e-3, centred});
                         return at::cat({made.sum, made.normal}) + 0 * in[2];
                       });
    }
  }
}

TEST_F(CudaFused, NormsAreTheSameWithoutGradients) {
  const auto make = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(gpu_, at::kBFloat16); };
  const Tensor x = make({77, 576}).set_requires_grad(true), added = make({77, 576}), weight = make({576});
  const NormedSum with = normalise_sum(x, added, {weight, {}, 1e-5, false});
  const at::NoGradGuard no_grad;
  const NormedSum without = normalise_sum(x, added, {weight, {}, 1e-5, false});
  EXPECT_TRUE(with.sum.equal(without.sum));
  EXPECT_TRUE(with.normal.equal(without.normal));
}

TEST_F(CudaFused, NormsOfManyRowsRepeatBitForBit) {
  const auto make = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(gpu_, at::kBFloat16); };
  const Tensor x = make({4097, 576}), added = make({4097, 576}), weight = make({576}),
               slopes = make({4097, 576});
  std::vector<Tensor> before;
  for (int n = 0; n < 3; ++n) {
    std::vector<Tensor> leaves;
    for (const Tensor& t : {x, added, weight}) leaves.push_back(t.detach().clone().set_requires_grad(true));
    const NormedSum made = normalise_sum(leaves[0], leaves[1], {leaves[2], {}, 1e-5, false});
    ((made.normal * slopes).sum() + made.sum.sum()).backward();
    std::vector<Tensor> now = {made.normal.detach(), leaves[0].grad(), leaves[2].grad()};
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(now[i].equal(before[i])) << i;
    before = now;
  }
}

class CudaLinears : public CudaFused, public testing::WithParamInterface<at::ScalarType> {};

TEST_P(CudaLinears, TogetherAgreeInBothLayouts) {
  for (const bool transposed : {false, true}) {
    for (const auto& [first, second] : {std::pair{24, 8}, {576, 192}, {5, 16}, {18432, 16}}) {
      const auto weight = [&](int64_t out) {
        return transposed ? at::randn({40, out}, at::kDouble) : at::randn({out, 40}, at::kDouble);
      };
      expect_agreement(
          {at::randn({2, 33, 40}, at::kDouble), weight(first), weight(second),
           at::randn({first}, at::kDouble)},
          GetParam(), 2 * tolerance_of(GetParam()), [&](const std::vector<Tensor>& in) {
            const LinearWeights one{in[1], in[3], transposed}, two{in[2], {}, transposed};
            const auto made = linear_together(in[0], {one, two});
            return at::cat({made[0], made[1]}, -1) + at::cat({linear_together(in[0], {one})[0], made[1]}, -1);
          });
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Dtypes, CudaLinears, testing::Values(at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& dtype) { return std::string(c10::toString(dtype.param)); });

// A leaf whose gradient holds numbers already.
Tensor leaf_with_grad(const Tensor& value, const Tensor& start) {
  Tensor leaf = value.detach().set_requires_grad(true);
  leaf.mutable_grad() = start.clone();
  return leaf;
}

TEST_F(CudaFused, LinearsAddToTheGradientsThatAreThere) {
  const auto make = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(gpu_); };
  for (const bool transposed : {false, true}) {
    for (const int64_t width : {16, 17}) {  // 17: rows that no vectors cover
      const Tensor x = make({7, 24}), slopes = make({7, width}), bias_start = make({width}),
                   start = transposed ? make({24, width}) : make({width, 24});
      const Tensor weight = leaf_with_grad(make(start.sizes()), start),
                   bias = leaf_with_grad(make({width}), bias_start), sum = weight.grad(),
                   bias_sum = bias.grad();
      for (int pass = 0; pass < 2; ++pass)
        (linear_together(x, {{weight, bias, transposed, true}})[0] * slopes).sum().backward();
      const Tensor product = transposed ? x.t().mm(slopes) : slopes.t().mm(x);
      EXPECT_TRUE(sum.is_same(weight.grad()));
      EXPECT_TRUE(bias_sum.is_same(bias.grad()));
      EXPECT_LE((sum - start - 2 * product).abs().max().item<double>(), 1e-4);
      EXPECT_LE((bias_sum - bias_start - 2 * slopes.sum(0)).abs().max().item<double>(), 1e-4);
    }
  }
}

TEST_F(CudaFused, NormsAddToTheGradientsThatAreThere) {
  const auto make = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(gpu_); };
  for (const bool centred : {false, true}) {
    const Tensor x = make({301, 64}), added = make({301, 64}), slopes = make({301, 64});
    const Tensor weight_value = make({64}), bias_value = make({64}), start = make({64});
    const auto run = [&](const Tensor& weight, const Tensor& bias, bool adds) {
      const NormedSum made =
          normalise_sum(x, added, {weight, centred ? bias : Tensor(), 1e-5, centred, adds});
      (made.normal * slopes).sum().backward();
    };
    const Tensor weight = leaf_with_grad(weight_value, start), bias = leaf_with_grad(bias_value, start),
                 sum = weight.grad(), bias_sum = bias.grad();
    run(weight, bias, true), run(weight, bias, true);
    const Tensor alone = weight_value.detach().clone().set_requires_grad(true),
                 bias_alone = bias_value.detach().clone().set_requires_grad(true);
    run(alone, bias_alone, false);
    EXPECT_TRUE(sum.is_same(weight.grad()));
    EXPECT_LE((sum - start - 2 * alone.grad()).abs().max().item<double>(), 1e-3);
    if (!centred) continue;
    EXPECT_TRUE(bias_sum.is_same(bias.grad()));
    EXPECT_LE((bias_sum - start - 2 * bias_alone.grad()).abs().max().item<double>(), 1e-3);
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
            3 * tolerance_of(dtype), [&](const std::vector<Tensor>& in) {
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
