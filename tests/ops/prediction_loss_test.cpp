// The loss made in chunks is the one made from whole logits: values and gradients, of any size and cut.
#include "ops/prediction_loss.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/tensor_memory.h"

namespace openwork {
namespace {

using at::Tensor;

// What a loss is made of, on leaves of its own.
struct Case {
  Tensor hidden, weight, bias, targets;
  TeacherRows teacher;

  Case(int64_t N, int64_t d, int64_t V, int64_t taught = 0, bool biased = false) {
    at::manual_seed(static_cast<uint64_t>(1000 * N + 10 * V + taught));
    const auto draw = [](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); };
    hidden = draw({N, d}), weight = draw({V, d}), targets = at::randint(V, {N}, at::kLong);
    if (biased) bias = draw({V});
    if (taught > 0) teacher = {draw({taught, d + 1}), {draw({V, d + 1}), biased ? draw({V}) : Tensor()}, 0.3};
  }

  Case as(at::ScalarType dtype) const {
    const auto move = [&](const Tensor& x) { return x.defined() ? x.detach().to(dtype).clone() : x; };
    Case result = *this;
    result.hidden = move(hidden), result.weight = move(weight), result.bias = move(bias);
    result.teacher = {move(teacher.hidden),
                      {move(teacher.unembedding.weight), move(teacher.unembedding.bias)},
                      teacher.weight};
    for (Tensor* x : {&result.hidden, &result.weight, &result.bias}) {
      if (x->defined()) x->set_requires_grad(true);
    }
    return result;
  }
};

struct Outcome {
  Tensor loss, cross_entropy, distance, hidden, weight, bias;  // the last three: gradients

  std::vector<Tensor> all() const {
    std::vector<Tensor> result = {loss, cross_entropy, distance, hidden, weight};
    if (bias.defined()) result.push_back(bias);
    return result;
  }
};

constexpr double kIncoming = 0.37;

Outcome finish(const Case& in, const PredictionLoss& loss) {
  (loss.loss * kIncoming).backward();
  return {loss.loss.detach(),     loss.cross_entropy.detach(),
          loss.distance.detach(), in.hidden.grad(),
          in.weight.grad(),       in.bias.defined() ? in.bias.grad() : Tensor()};
}

Outcome in_chunks(const Case& in, int64_t chunk) {
  return finish(in, prediction_loss(in.hidden, {in.weight, in.bias}, in.targets, in.teacher, chunk));
}

// The formula over whole logits, softmax in float32 at least, left to autograd.
Outcome by_hand(const Case& in) {
  const auto log_softmax = [&](const Tensor& x, const Unembedding& matrix) {
    const Tensor z =
        at::linear(x, matrix.weight, matrix.bias.defined() ? std::optional(matrix.bias) : std::nullopt);
    return at::log_softmax(z.scalar_type() == at::kDouble ? z : z.to(at::kFloat), -1);
  };
  const Tensor given = log_softmax(in.hidden, {in.weight, in.bias});
  PredictionLoss loss;
  loss.cross_entropy = -given.gather(1, in.targets.unsqueeze(1)).squeeze(1);
  loss.distance = at::zeros({0}, given.options());
  if (in.teacher.hidden.defined()) {
    const Tensor wanted = log_softmax(in.teacher.hidden, in.teacher.unembedding);
    loss.distance = (wanted.exp() * (wanted - given.narrow(0, 0, wanted.size(0)))).sum(1);
  }
  loss.loss = loss.cross_entropy.mean() + in.teacher.weight * loss.distance.sum();
  return finish(in, loss);
}

double distance_between(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return a.numel() == 0 ? 0 : (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
}

TEST(PredictionLoss, IsThatOfWholeLogitsInFloat64) {
  for (const auto& [N, d, V] :
       {std::array<int64_t, 3>{1, 3, 5}, {7, 4, 11}, {33, 8, 50}, {130, 16, 97}, {3, 2, 1}}) {
    for (const int64_t taught : {int64_t{0}, int64_t{1}, N / 2, N}) {
      const Case in(N, d, V, taught, /*biased=*/N % 2 == 1);
      const Outcome wanted = by_hand(in.as(at::kDouble));
      for (const int64_t chunk : {1, 2, 5, 32, 64, 1000, 0}) {
        const Outcome seen = in_chunks(in.as(at::kDouble), chunk);
        for (size_t n = 0; n < wanted.all().size(); ++n) {
          EXPECT_LE(distance_between(seen.all()[n], wanted.all()[n]), 1e-12 * static_cast<double>(N))
              << "part " << n << " of " << N << " rows, " << taught << " taught, in chunks of " << chunk;
        }
      }
    }
  }
}

// In fewer bits it is off by no more than twice what whole logits are.
TEST(PredictionLoss, IsAsExactAsWholeLogitsInFewerBits) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t taught : {0, 40}) {
      const Case in(200, 32, 301, taught);
      const Case rounded = in.as(dtype).as(at::kDouble);
      const Outcome exact = by_hand(rounded), plain = by_hand(rounded.as(dtype)),
                    seen = in_chunks(rounded.as(dtype), 32);
      for (size_t n = 0; n < exact.all().size(); ++n) {
        const double floor =
            (dtype == at::kFloat ? 1e-6 : 1e-3) * exact.all()[n].to(at::kDouble).norm().item<double>();
        EXPECT_LE(distance_between(seen.all()[n], exact.all()[n]),
                  2 * distance_between(plain.all()[n], exact.all()[n]) + floor)
            << "part " << n << " in " << c10::toString(dtype) << ", " << taught << " taught";
      }
      EXPECT_EQ(seen.hidden.scalar_type(), dtype);
      EXPECT_EQ(seen.weight.scalar_type(), dtype);
      EXPECT_EQ(seen.loss.scalar_type(), at::kFloat);
    }
  }
}

TEST(PredictionLoss, IsTheSameToTheBitEachTime) {
  const Case in(150, 16, 203, 50, true);
  const Outcome first = in_chunks(in.as(at::kFloat), 32), second = in_chunks(in.as(at::kFloat), 32);
  for (size_t n = 0; n < first.all().size(); ++n)
    EXPECT_TRUE(at::equal(first.all()[n], second.all()[n])) << n;
}

TEST(PredictionLoss, StaysFiniteAtVeryLargeLogits) {
  const Tensor logits =
      at::tensor({3e4f, -3e4f, 0.f, -3e4f, -3e4f, -3e4f}).view({2, 3}).set_requires_grad(true);
  const PredictionLoss loss = prediction_loss(logits, {at::eye(3), {}}, at::tensor({0, 2}, at::kLong));
  loss.loss.backward();
  EXPECT_NEAR(loss.loss.item<double>(), std::log(3.0) / 2, 1e-5);
  EXPECT_TRUE(logits.grad().isfinite().all().item<bool>());
}

TEST(PredictionLoss, MakesNoGradientThatNobodyAsksFor) {
  const int64_t N = 32, d = 64, V = 4096;
  const auto peak_of = [&](bool trained) {
    const Case in = Case(N, d, V).as(at::kFloat);
    in.weight.set_requires_grad(trained);
    return peak_bytes_of([&] {
      prediction_loss(in.hidden, {in.weight, {}}, in.targets, {}, 4).loss.backward();
      EXPECT_EQ(in.weight.grad().defined(), trained);
      EXPECT_TRUE(in.hidden.grad().defined());
    });
  };
  EXPECT_LT(peak_of(false) + V * d * 4 - 1, peak_of(true));
  const at::NoGradGuard no_grad;
  const Case in = Case(N, d, V).as(at::kFloat);
  const PredictionLoss loss = prediction_loss(in.hidden, {in.weight, {}}, in.targets);
  EXPECT_FALSE(loss.loss.requires_grad());
}

TEST(PredictionLoss, RefusesASecondPassBack) {
  const Case in = Case(9, 4, 7).as(at::kFloat);
  const PredictionLoss loss = prediction_loss(in.hidden, {in.weight, {}}, in.targets);
  loss.loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.loss.backward(), c10::Error);
}

TEST(PredictionLoss, NeverHoldsAllLogits) {
  const int64_t N = 512, d = 8, V = 4096, chunk = 16;
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t taught : {0, 128}) {
      const Case in = Case(N, d, V, taught).as(dtype);
      const int64_t peak = peak_bytes_of([&] { in_chunks(in, chunk); });
      const int64_t whole = N * V * static_cast<int64_t>(c10::elementSize(dtype));
      EXPECT_LT(peak, whole / 2) << peak << " bytes, whole logits have " << whole;
    }
  }
}

// What is said of a walk's memory is what it takes: chunks as they are chosen, so of a large vocabulary.
TEST(PredictionLoss, SaysWhatItHolds) {
  const int64_t N = 160, V = (int64_t{1} << 18) + 1;
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const int64_t chunk = prediction_chunk(V, dtype, at::kCPU);
    ASSERT_LT(chunk, N);
    for (const int64_t taught : {0, 8}) {
      const at::NoGradGuard no_grad;  // nothing but scratch
      Case in(1, 1, 1);
      in.hidden = at::ones({N, 1}, dtype), in.weight = at::ones({V, 1}, dtype),
      in.targets = at::ones({N}, at::kLong);
      if (taught > 0) in.teacher = {in.hidden.narrow(0, 0, taught), {in.weight, {}}, 1};
      const int64_t peak = peak_bytes_of([&] {
        prediction_loss(in.hidden, {in.weight, {}}, in.targets, in.teacher);
      });
      const int64_t said = prediction_scratch(N, taught, V, dtype, at::kCPU);
      EXPECT_NEAR(static_cast<double>(peak), static_cast<double>(said), 0.02 * static_cast<double>(said))
          << c10::toString(dtype) << ", " << taught << " taught";
    }
  }
}

TEST(PredictionLoss, ChunksAreBoundedWhateverTheVocabulary) {
  EXPECT_EQ(prediction_chunk(49152, at::kBFloat16, at::kCUDA), 2048);
  EXPECT_EQ(prediction_chunk(50257, at::kFloat, at::kCPU), 256);
  EXPECT_EQ(prediction_chunk(int64_t{1} << 40, at::kFloat, at::kCPU), 1);
}

}  // namespace
}  // namespace openwork
