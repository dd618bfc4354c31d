#include "transcode/calibration.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace openwork {
namespace {

// As many threads as a user's machine has, not the one that tests run with.
class ManyThreads {
 public:
  ManyThreads() : before_(at::get_num_threads()) { at::set_num_threads(4); }
  ~ManyThreads() { at::set_num_threads(before_); }

 private:
  int before_;
};

// At eight layers as wide as openwork-8m a batch of LU factors by many threads never ended.
TEST(Calibration, ASkipIsTheLinearMapThatOutputsAreOfInputs) {
  const ManyThreads threads;
  const int64_t L = 8, N = 1024, D = 256;
  at::Generator generator = at::detail::createCPUGenerator(3);
  const auto floats = at::TensorOptions().dtype(at::kFloat);
  const Tensor inputs = at::randn({L, N, D}, generator, floats);
  const Tensor map = at::randn({L, D, D}, generator, floats) / 16;  // out by in
  const MlpActivations activations{inputs, at::bmm(inputs, map.transpose(1, 2)) + 1, {}};
  const ActivationScales scales = measure_scales(activations);
  const TranscoderShape shape{TranscoderKind::kPerLayer, L, 32, D, true};
  const TranscoderParts parts = split_parts(shape, at::zeros({shape.numbers()}, floats));
  start_features(shape, scale_activations(activations, scales), scales, 4, 0, parts);
  const Tensor found = parts.skip * (scales.output / scales.input).view({-1, 1, 1});
  // The ridge shortens it by about a hundredth.
  EXPECT_LT((found - map).norm().item<double>(), 0.05 * map.norm().item<double>());
}

}  // namespace
}  // namespace openwork
