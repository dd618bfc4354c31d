// Holds the operator to the four cases of the float64 oracle tests/data/gates.safetensors, gradients
// included.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/philox.h"
#include "io/tensor_file.h"
#include "ops/cases.h"

namespace openwork {
namespace {

using at::Tensor;

class Fixture {
 public:
  Tensor get(const std::string& name) const {
    const TensorEntry& entry = file_->at(name);
    Tensor tensor = at::empty(entry.shape, entry.dtype == DType::kI64 ? at::kLong : at::kDouble);
    read_bytes(entry, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
    return tensor;
  }

 private:
  std::unique_ptr<TensorFile> file_ = open_weights("tests/data/gates.safetensors");
};

using Run = AttentionGradients (*)(const AttentionCase&, const AttentionInputs&);

// All results of all four cases within `tolerance` of the oracle, the counts equal.
void expect_fixture(Run run, at::ScalarType dtype, double tolerance) {
  const Fixture fixture;
  for (const std::string gate : {"score", "logprob"}) {
    for (const std::string kind : {"hard", "sampled"}) {
      const std::string prefix = gate + "." + kind + ".";
      AttentionCase of;
      of.gate = gate;
      if (kind == "sampled") of.seed = fixture.get("seed").item<int64_t>();
      const AttentionInputs inputs = AttentionInputs{fixture.get("q"),        fixture.get("k"),
                                                     fixture.get("v"),        fixture.get(prefix + "bias"),
                                                     fixture.get("grad_out"), fixture.get("grad_penalty")}
                                         .to(dtype);
      const AttentionGradients seen = run(of, inputs);
      EXPECT_TRUE(seen.result.active.equal(fixture.get(prefix + "active"))) << prefix;
      const char* names[] = {"out", "penalty", "dq", "dk", "dv", "dbias"};
      const auto results = named_results(seen);
      for (size_t n = 0; n < results.size(); ++n) {
        EXPECT_LE(relative_error(results[n].value, fixture.get(prefix + names[n])), tolerance)
            << prefix << names[n];
      }
    }
  }
}

TEST(GatesFixture, ReferenceAgreesInFloat64) {
  expect_fixture(run_reference, at::kDouble, 1e-10);
}
TEST(GatesFixture, KernelAgreesInFloat64) {
  expect_fixture(run_operator, at::kDouble, 1e-10);
}
TEST(GatesFixture, KernelAgreesInFloat32) {
  expect_fixture(run_operator, at::kFloat, 1e-5);
}

TEST(GatesFixture, UniformsAreTheOraclesExactly) {
  const Fixture fixture;
  const Tensor wanted = fixture.get("uniform");
  const int64_t seed = fixture.get("seed").item<int64_t>();
  EXPECT_TRUE(gate_uniforms(wanted.size(0), wanted.size(1), wanted.size(2), seed).equal(wanted));
}

TEST(GateUniforms, ArePureFunctionsOfSampleHeadRowAndKey) {
  const Tensor all = gate_uniforms(4, 3, 21, 77);
  EXPECT_TRUE(gate_uniforms(2, 3, 21, 77, 2).equal(all.narrow(0, 2, 2)));
  EXPECT_FALSE(gate_uniforms(4, 3, 21, 78).equal(all));
  EXPECT_EQ(all[3][1][20][18].item<double>(),
            uniform_of(philox(77, gate_counter(3, 1, 20, 4, 3, 21)).word[2]));
}

TEST(GateUniforms, SpreadEvenlyOverTheOpenInterval) {
  const Tensor u = gate_uniforms(1, 4, 128, 5);
  EXPECT_GT(u.min().item<double>(), 0);
  EXPECT_LT(u.max().item<double>(), 1);
  EXPECT_NEAR(u.mean().item<double>(), 0.5, 0.005);
  EXPECT_NEAR(u.var().item<double>(), 1.0 / 12, 0.002);
}

}  // namespace
}  // namespace openwork
