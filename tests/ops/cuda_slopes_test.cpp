// The rows' slopes that forward keeps for backward on a GPU (ops/arguments.h): kept where asked, of the sizes
// that meta tensors promise, and a help only: gradients are the same without them.
#include <ATen/core/dispatch/Dispatcher.h>

#include <thread>

#include "ops/arguments.h"
#include "ops/cuda_cases.h"

namespace openwork {
namespace {

using at::Tensor;

class CudaSlopes : public OnGpu {
 protected:
  static ForwardResult forward(const AttentionCase& of, const AttentionInputs& in, bool keep_slopes) {
    static const auto kernel = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("openwork::gated_attention_forward", "")
                                   .typed<ForwardKernel>();
    return kernel.call(in.q, in.k, in.v, in.bias, idle_of(in), of.gate, seed_of(of), of.first, scale_of(of),
                       of.sharpness, keep_slopes);
  }
  static std::vector<Tensor> backward(const AttentionCase& of, const AttentionInputs& in,
                                      const ForwardResult& made, const Tensor& slope_rows,
                                      const Tensor& slope_sums) {
    static const auto kernel = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("openwork::gated_attention_backward", "")
                                   .typed<BackwardKernel>();
    const at::NoGradGuard no_grad;
    const auto [q, k, v, bias, idle] =
        kernel.call(in.grad_out, in.grad_penalty.to(at::kFloat), in.q, in.k, in.v, in.bias, idle_of(in),
                    std::get<0>(made), std::get<3>(made), slope_rows, slope_sums, of.gate, seed_of(of),
                    of.first, scale_of(of), of.sharpness, std::nullopt, std::nullopt);
    return {q, k, v, bias, idle};
  }

 private:
  static std::optional<Tensor> idle_of(const AttentionInputs& in) {
    return in.idle.defined() ? std::optional(in.idle) : std::nullopt;
  }
  static Seed seed_of(const AttentionCase& of) { return of.seed ? Seed(*of.seed) : std::nullopt; }
  static double scale_of(const AttentionCase& of) { return 1 / std::sqrt(static_cast<double>(of.d)); }
};

TEST_F(CudaSlopes, AreKeptWhereAskedInTheSizesMetaTensorsPromise) {
  for (const int64_t d : {48, 64, 128}) {
    for (const bool sampled : {false, true}) {
      AttentionCase of{2, 4, 2, 70, d, at::kBFloat16};
      set_gate(of, kGateIdle);
      if (sampled) of.seed = 3;
      const AttentionInputs inputs = make_inputs(of);
      const ForwardResult kept = forward(of, inputs.to(gpu_), true),
                          none = forward(of, inputs.to(gpu_), false),
                          meta = forward(of, inputs.to(at::Device(at::kMeta)), true);
      EXPECT_EQ(std::get<4>(kept).sizes(), std::get<4>(meta).sizes()) << describe(of);
      EXPECT_EQ(std::get<5>(kept).sizes(), std::get<5>(meta).sizes()) << describe(of);
      EXPECT_EQ(std::get<4>(kept).numel() > 0, sampled);
      EXPECT_EQ(std::get<4>(none).numel() + std::get<5>(none).numel(), 0);
      EXPECT_TRUE(std::get<0>(kept).equal(std::get<0>(none))) << describe(of);
    }
  }
}

// Without them backward takes the two passes on every GPU, with them one on Hopper; of more heads, too, than that one
// has in hand at once.
TEST_F(CudaSlopes, GradientsAreTheSameWithoutThem) {
  const auto compare = [&](AttentionCase of) {
    of.dtype = of.d == 64 ? at::kHalf : at::kBFloat16;
    of.sharpness = of.d == 128 ? 2 : 1;
    const AttentionInputs inputs = make_inputs(of).to(gpu_);
    const ForwardResult made = forward(of, inputs, true);
    const Tensor nothing = at::empty({0}, inputs.bias.options());
    const auto with = backward(of, inputs, made, std::get<4>(made), std::get<5>(made));
    const auto without = backward(of, inputs, made, nothing, nothing);
    for (size_t n = 0; n < with.size(); ++n) {
      EXPECT_LE(relative_error(with[n], without[n]), 2e-2) << describe(of) << ": gradient " << n;
    }
  };
  for (const int64_t d : {48, 64, 128}) {
    for (const auto gate : {kGateLogProb, kGateIdle}) {
      for (const bool sampled : {false, true}) {
        for (AttentionCase of : {AttentionCase{2, 4, 2, 203, d}, AttentionCase{9, 9, 3, 203, d}}) {
          set_gate(of, gate);
          if (sampled) of.seed = 8;
          compare(of);
        }
      }
    }
  }
}

// A thread that has asked the runtime for nothing has no context, which what describes rows to the copy engine needs.
TEST_F(CudaSlopes, BackwardRunsInAThreadThatHasNotSeenTheGpu) {
  AttentionCase of{2, 4, 2, 70, 64, at::kBFloat16};
  set_gate(of, kGateIdle);
  of.seed = 3;
  AttentionInputs inputs = make_inputs(of).to(gpu_);
  for (const auto member : {&AttentionInputs::bias, &AttentionInputs::idle, &AttentionInputs::grad_penalty})
    inputs.*member = (inputs.*member).to(at::kFloat);  // as they are taken: no kernel runs before
  const ForwardResult made = forward(of, inputs, true);
  const auto run = [&] { return backward(of, inputs, made, std::get<4>(made), std::get<5>(made)); };
  const std::vector<Tensor> wanted = run();
  run();  // leaves memory of every size behind, so that the thread need not ask for any
  std::vector<Tensor> seen;
  std::string error;
  std::thread([&] {
    try {
      seen = run();
    } catch (const std::exception& failed) {
      error = failed.what();
    }
  }).join();
  ASSERT_EQ(error, "");
  for (size_t n = 0; n < wanted.size(); ++n) EXPECT_LE(relative_error(seen[n], wanted[n]), 1e-2);
}

}  // namespace
}  // namespace openwork
