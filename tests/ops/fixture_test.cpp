// Holds the operator to the cases of the float64 oracles tests/data/gates.safetensors (score and logprob) and
// gates_idle.safetensors (idle, grouped queries), gradients included.
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
  explicit Fixture(const std::string& name) : file_(open_weights("tests/data/" + name + ".safetensors")) {}

  Tensor get(const std::string& name) const {
    const TensorEntry& entry = file_->at(name);
    Tensor tensor = at::empty(entry.shape, entry.dtype == DType::kI64 ? at::kLong : at::kDouble);
    read_bytes(entry, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
    return tensor;
  }

 private:
  std::unique_ptr<TensorFile> file_;
};

using Run = AttentionGradients (*)(const AttentionCase&, const AttentionInputs&);

// The largest difference over the oracle's largest value.
double error_of(const Tensor& seen, const Tensor& wanted) {
  return ((seen.to(at::kDouble) - wanted).abs().max() / wanted.abs().max()).item<double>();
}

// One case, `gate`.`kind`, within `tolerance` of the oracle, the counts equal.
void expect_case(const Fixture& fixture, const std::string& gate, const std::string& kind, Run run,
                 at::ScalarType dtype, double tolerance) {
  const std::string prefix = gate + "." + kind + ".";
  AttentionCase of;
  of.gate = gate;
  if (kind == "sampled") of.seed = fixture.get("seed").item<int64_t>();
  AttentionInputs inputs{fixture.get("q"),        fixture.get("k"),
                         fixture.get("v"),        fixture.get(gate == "idle" ? "bias" : prefix + "bias"),
                         fixture.get("grad_out"), fixture.get("grad_penalty")};
  if (gate == "idle") inputs.idle = fixture.get("idle");
  const AttentionGradients seen = run(of, inputs.to(dtype));
  EXPECT_TRUE(seen.result.active.equal(fixture.get(prefix + "active"))) << prefix;
  const char* names[] = {"out", "penalty", "dq", "dk", "dv", "dbias", "didle"};
  const auto results = named_results(seen);
  for (size_t n = 0; n < results.size(); ++n) {
    EXPECT_LE(error_of(results[n].value, fixture.get(prefix + names[n])), tolerance) << prefix << names[n];
  }
}

void expect_fixtures(Run run, at::ScalarType dtype, double tolerance) {
  const Fixture gates("gates"), idle("gates_idle");
  for (const std::string kind : {"hard", "sampled"}) {
    for (const std::string gate : {"score", "logprob"}) expect_case(gates, gate, kind, run, dtype, tolerance);
    expect_case(idle, "idle", kind, run, dtype, tolerance);
  }
}

TEST(GatesFixture, ReferenceAgreesInFloat64) {
  expect_fixtures(run_reference, at::kDouble, 1e-10);
}
TEST(GatesFixture, KernelAgreesInFloat64) {
  expect_fixtures(run_operator, at::kDouble, 1e-10);
}
TEST(GatesFixture, KernelAgreesInFloat32) {
  expect_fixtures(run_operator, at::kFloat, 1e-5);
}

TEST(GatesFixture, UniformsAreTheOraclesExactly) {
  for (const std::string name : {"gates", "gates_idle"}) {
    const Fixture fixture(name);
    const Tensor wanted = fixture.get("uniform");
    const int64_t seed = fixture.get("seed").item<int64_t>();
    EXPECT_TRUE(gate_uniforms(wanted.size(0), wanted.size(1), wanted.size(2), seed).equal(wanted)) << name;
  }
}

TEST(GateUniforms, ArePureFunctionsOfSampleHeadRowAndKey) {
  const Tensor all = gate_uniforms(4, 3, 21, 77);
  EXPECT_TRUE(gate_uniforms(2, 3, 21, 77, 2).equal(all.narrow(0, 2, 2)));
  EXPECT_FALSE(gate_uniforms(4, 3, 21, 78).equal(all));
  EXPECT_EQ(all[3][1][20][18].item<double>(),
            gate_uniform(gate_bits(philox<kGateRounds>(77, gate_counter(3, 1, 20, 2, 3, 21)), 18)));
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
