// gated_inference and append_tokens on the GPU, against the CPU's kernels in float64 on the same rounded inputs.
#include <fmt/format.h>

#include "ops/append_cases.h"
#include "ops/cuda_cases.h"
#include "ops/gated_inference.h"

namespace openwork {
namespace {

using at::Tensor;

constexpr GateKind kInferenceGates[] = {GateKind::kNone, GateKind::kScore, GateKind::kLogprob,
                                        GateKind::kIdle};

// T queries at the end of K keys.
struct DecodeCase {
  int64_t B, H, G, T, K, d;
};

// On both sides of every border of the kernels: head sizes that are padded or share lanes unevenly, one query and
// blocks of eight, one kernel and two, a last chunk of one key; and, in half precision, tiles: whole texts and texts
// behind a cache on both sides of a tile's border, and long ones of which most tiles are never visited again.
const DecodeCase kDecodeCases[] = {
    {1, 1, 1, 1, 1, 1},      {2, 6, 3, 1, 7, 5},         {1, 9, 3, 1, 129, 64},    {1, 4, 4, 1, 448, 32},
    {2, 4, 2, 3, 130, 80},   {1, 3, 1, 7, 7, 33},        {1, 4, 2, 8, 8, 16},      {1, 2, 2, 17, 17, 96},
    {2, 2, 1, 20, 75, 128},  {1, 2, 2, 130, 130, 32},    {1, 2, 1, 1, 2048, 64},   {1, 2, 1, 1, 2049, 64},
    {1, 9, 3, 1, 5000, 64},  {1, 2, 1, 2, 3000, 256},    {1, 1, 1, 9, 2048, 8},    {1, 2, 1, 12, 2600, 40},
    {5, 8, 8, 1, 300, 100},  {1, 2, 2, 200, 512, 256},   {1, 8, 8, 512, 512, 32},  {1, 2, 2, 17, 17, 64},
    {2, 4, 2, 64, 64, 64},   {1, 3, 1, 65, 65, 128},     {1, 9, 3, 200, 200, 64},  {1, 2, 1, 130, 500, 64},
    {1, 2, 1, 70, 133, 128}, {2, 3, 3, 1000, 1000, 128}, {1, 3, 1, 3000, 3000, 64}};

struct DecodeInputs {
  Tensor q, k, v, bias, idle;

  DecodeInputs to(const at::TensorOptions& options) const {
    return {q.to(options), k.to(options), v.to(options), bias.to(options.device()),
            idle.to(options.device())};
  }
};

// k and v are parts of a longer cache, and biases leave every head another share of its edges; head 0 is closed for
// logprob and idle.
DecodeInputs make_decode_inputs(const DecodeCase& of, at::ScalarType dtype) {
  at::manual_seed(of.K * 1000 + of.d);
  const auto some = [&](std::vector<int64_t> sizes) { return at::randn(sizes, at::kDouble).to(dtype); };
  const Tensor q = 2 * some({of.B, of.T, of.H, of.d}).transpose(1, 2);
  const auto cache = [&] { return some({of.B, of.G, of.K + 13, of.d}).narrow(2, 0, of.K); };
  const Tensor k = cache(), v = cache();
  const double most = std::log(1.0 + static_cast<double>(of.K) / 3);
  return {q, k, v, at::linspace(of.H == 1 ? most : 0, most, of.H, at::kFloat),
          at::linspace(-2, most, of.H, at::kFloat)};
}

Tensor run_inference(const DecodeInputs& in, GateKind gate, const Tensor& key_of_query = {}) {
  const bool gated = gate != GateKind::kNone, idle = gate == GateKind::kIdle;
  return gated_inference(in.q, in.k, in.v, gated ? in.bias : Tensor(), idle ? in.idle : Tensor(), gate,
                         1 / std::sqrt(static_cast<double>(in.q.size(3))), key_of_query);
}

// Rows [B, H, T] with an edge so close to its border that float32 may open it or not.
Tensor has_undecided(const DecodeInputs& exact, GateKind gate, double near = 3e-5) {
  const int64_t T = exact.q.size(2), K = exact.k.size(2), group = exact.q.size(1) / exact.k.size(1);
  if (gate == GateKind::kNone) return at::zeros({exact.q.size(0), exact.q.size(1), T}, at::kBool);
  const Tensor S = exact.q.matmul(exact.k.repeat_interleave(group, 1).transpose(-2, -1)) /
                   std::sqrt(static_cast<double>(exact.q.size(3)));  // [B, H, T, K]
  const Tensor causal = at::ones({T, K}, at::kBool).tril(K - T);
  const Tensor masked = S.masked_fill(~causal, -INFINITY), L = masked.logsumexp(-1, true);
  const auto by_head = [](const Tensor& x) { return x.to(at::kDouble).view({1, -1, 1, 1}); };
  Tensor g = S + by_head(exact.bias);
  if (gate != GateKind::kScore) g = g - L;
  if (gate == GateKind::kIdle) g = g + at::log_sigmoid(L - by_head(exact.idle));
  return (g.abs() <= near).logical_and(causal).any(-1);
}

class CudaInference : public OnGpu {
 protected:
  void expect_agreement(const DecodeCase& of, at::ScalarType dtype, GateKind gate, double tolerance) const {
    const DecodeInputs in = make_decode_inputs(of, dtype);
    const DecodeInputs exact = in.to(at::TensorOptions().dtype(at::kDouble));
    const Tensor seen = run_inference(in.to(at::TensorOptions().dtype(dtype).device(gpu_)), gate);
    const Tensor wanted = run_inference(exact, gate), undecided = has_undecided(exact, gate);
    ASSERT_EQ(seen.sizes(), wanted.sizes());
    ASSERT_EQ(seen.scalar_type(), dtype);
    const Tensor differs = (seen.cpu().to(at::kDouble) - wanted).abs().amax(-1).masked_fill(undecided, 0);
    const std::string name = fmt::format("{} {} B {} H {} G {} T {} K {} d {}", gate_name(gate),
                                         c10::toString(dtype), of.B, of.H, of.G, of.T, of.K, of.d);
    // Not <=: a number that is none fails too.
    EXPECT_TRUE(differs.max().item<double>() <= tolerance)
        << name << " differs by " << differs.max().item<double>();
    EXPECT_LE(undecided.to(at::kDouble).mean().item<double>(), 0.5) << name << ": too little is compared";
  }
};

TEST_F(CudaInference, IsTheCpusInFloat32) {
  for (const DecodeCase& of : kDecodeCases) {
    for (const GateKind gate : kInferenceGates) expect_agreement(of, at::kFloat, gate, 3e-5);
  }
}

TEST_F(CudaInference, IsTheCpusInHalfPrecisionRoundedOnce) {
  for (const DecodeCase& of : kDecodeCases) {
    for (const GateKind gate : kInferenceGates) {
      expect_agreement(of, at::kBFloat16, gate, 2e-2);
      expect_agreement(of, at::kHalf, gate, 3e-3);
    }
  }
}

TEST_F(CudaInference, GivesTheLastRowsOfTheOperator) {
  for (const auto gate : kAllGates) {
    AttentionCase of{2, 6, 3, 200, 64, at::kFloat, {}};
    set_gate(of, gate);
    const AttentionInputs inputs = make_inputs(of);
    const Tensor whole = run_reference(of, inputs.to(at::kDouble)).result.out;
    const Tensor undecided = is_undecided(of, inputs).any(-1);  // [B, H, T]
    const AttentionInputs there = inputs.to(gpu_);
    for (const int64_t last : {1, 5, 200}) {
      const Tensor seen =
          gated_inference(there.q.narrow(2, 200 - last, last), there.k, there.v, there.bias,
                          gate == kGateIdle ? there.idle : Tensor(), *find_gate(gate), 1 / std::sqrt(64.0));
      const Tensor differs = (seen.cpu().to(at::kDouble) - whole.narrow(2, 200 - last, last)).abs().amax(-1);
      EXPECT_LE(differs.masked_fill(undecided.narrow(2, 200 - last, last), 0).max().item<double>(), 3e-5)
          << gate << " the last " << last;
    }
  }
}

TEST_F(CudaInference, HeadsReadTheKeysTheyAreTold) {
  const Tensor index = at::tensor(std::vector<int64_t>{1, 0, 1});
  for (const int64_t K : {40, 2500}) {
    DecodeInputs in = make_decode_inputs({2, 3, 2, 2, K, 16}, at::kFloat);
    DecodeInputs own = in.to(at::TensorOptions().dtype(at::kDouble));
    own.k = own.k.index_select(1, index), own.v = own.v.index_select(1, index);
    for (const GateKind gate : {GateKind::kNone, GateKind::kIdle}) {
      const Tensor seen = run_inference(in.to(at::TensorOptions(gpu_)), gate, index.to(gpu_));
      const Tensor differs = (seen.cpu().to(at::kDouble) - run_inference(own, gate)).abs().amax(-1);
      EXPECT_LE(differs.masked_fill(has_undecided(own, gate), 0).max().item<double>(), 3e-5) << "K " << K;
    }
  }
}

TEST_F(CudaInference, ClosedHeadsAndEmptyRowsAreExactZeros) {
  const float end = std::numeric_limits<float>::infinity();
  struct Case {
    int64_t T, K, d;
    at::ScalarType dtype;
  };
  for (const auto& [T, K, d, dtype] : {Case{1, 70, 16, at::kFloat},
                                       {70, 70, 16, at::kFloat},
                                       {1, 3000, 16, at::kFloat},
                                       {70, 70, 64, at::kBFloat16}}) {
    DecodeInputs in = make_decode_inputs({1, 4, 4, T, K, d}, dtype);
    in.bias = at::tensor(std::vector<float>{0, -3, 4, 12});
    in.idle = at::tensor(std::vector<float>{-end, 1, end, -end});
    const Tensor z = run_inference(in.to(at::TensorOptions(gpu_)), GateKind::kIdle).cpu();
    EXPECT_TRUE(z.narrow(1, 0, 3).eq(0).all().item<bool>());
    EXPECT_GT(z.narrow(1, 3, 1).abs().max().item<float>(), 0);
    in.bias = at::full({4}, -1e4, at::kFloat);
    EXPECT_TRUE(run_inference(in.to(at::TensorOptions(gpu_)), GateKind::kScore).eq(0).all().item<bool>());
  }
}

// With scores so large that references rise while a row is walked, and idle scores and biases that would leave float32's
// range if they were multiplied.
TEST_F(CudaInference, TakesLargeNumbersInTiles) {
  DecodeInputs in = make_decode_inputs({1, 4, 2, 700, 700, 64}, at::kBFloat16);
  in.q = in.q * at::linspace(0.1, 12, 700, at::kDouble).view({1, 1, -1, 1}).to(at::kBFloat16);
  in.k = in.k * at::linspace(0.1, 4, 700, at::kDouble).view({1, 1, -1, 1}).to(at::kBFloat16);
  in.bias = at::tensor(std::vector<float>{200, 4, 30, 200}),
  in.idle = at::tensor(std::vector<float>{200, -300, 30, 190});
  const DecodeInputs exact = in.to(at::TensorOptions().dtype(at::kDouble));
  for (const GateKind gate : {GateKind::kNone, GateKind::kLogprob, GateKind::kIdle}) {
    const Tensor wanted = run_inference(exact, gate), near = has_undecided(exact, gate, 1e-3);
    const Tensor seen = run_inference(in.to(at::TensorOptions(gpu_)), gate).cpu().to(at::kDouble);
    EXPECT_TRUE((seen - wanted).abs().amax(-1).masked_fill(near, 0).max().item<double>() <= 2e-2)
        << gate_name(gate);
    EXPECT_LE(near.to(at::kDouble).mean().item<double>(), 0.5);
  }
}

TEST_F(CudaInference, RepeatsBitForBitAndTakesGatesInHalfPrecision) {
  for (const auto& [T, K] : {std::pair<int64_t, int64_t>{1, 500}, {1, 4000}, {200, 200}}) {
    const DecodeInputs in =
        make_decode_inputs({1, 4, 2, T, K, 64}, at::kBFloat16).to(at::TensorOptions(gpu_));
    EXPECT_TRUE(run_inference(in, GateKind::kIdle).equal(run_inference(in, GateKind::kIdle)));
    DecodeInputs rounded = in;
    rounded.bias = in.bias.to(at::kBFloat16), rounded.idle = in.idle.to(at::kBFloat16);
    DecodeInputs widened = in;
    widened.bias = rounded.bias.to(at::kFloat), widened.idle = rounded.idle.to(at::kFloat);
    EXPECT_TRUE(run_inference(rounded, GateKind::kIdle).equal(run_inference(widened, GateKind::kIdle)));
  }
}

TEST_F(CudaInference, AppendsAsTheCpuDoes) {
  for (const AppendCase& of : append_cases()) {
    for (const auto& [dtype, tolerance] :
         {std::pair{at::kFloat, 1e-6}, {at::kHalf, 4e-3}, {at::kBFloat16, 4e-2}}) {
      const AppendInputs in = make_append_inputs(of, dtype);
      const AppendResult seen = run_append(of, in, gpu_), wanted = run_append(of, in, at::kCPU);
      EXPECT_TRUE(seen.values.equal(wanted.values));
      EXPECT_LE(relative_error(seen.q, wanted.q), tolerance);
      EXPECT_LE(relative_error(seen.keys, wanted.keys), tolerance);
    }
  }
}

}  // namespace
}  // namespace openwork
