// Training and ranks on a GPU; skips where there is none. Everything happens in child processes, which CUDA wants fresh.
#include <gmock/gmock.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdlib>

#include "model/architecture.h"
#include "ops/gated_attention.h"
#include "train/initialise.h"
#include "train/loss.h"
#include "train/memory.h"
#include "train/nccl.h"
#include "train/rank_processes.h"
#include "train/run_fixture.h"
#include "train/starting_point.h"

namespace openwork {
namespace {

constexpr int kNoGpu = 77;

bool has_gpu() {
  load_cuda_operators();
  return at::hasCUDA();
}

void expect_all_right(const std::vector<int>& codes) {
  if (codes.front() == kNoGpu) GTEST_SKIP() << "no GPU here";
  EXPECT_THAT(codes, testing::Each(0));
}

TEST(RanksOnGpu, ThatShareOneAddUpOverGloo) {
  expect_all_right(run_ranks(2, [](Ranks& ranks) {
    if (!has_gpu()) return kNoGpu;
    const at::Device device(at::kCUDA, 0);
    ranks.use_device(device);  // the same for both: NCCL would refuse it
    const at::Tensor x = at::full({100000}, ranks.rank() + 1.0, at::TensorOptions().device(device));
    ranks.sum(x);
    const at::Tensor first = at::full({7}, ranks.rank() + 1.0, at::TensorOptions().device(device));
    ranks.broadcast(first);
    const at::Tensor pieces = at::full({2000}, ranks.rank() + 1.0, at::TensorOptions().device(device)),
                     own = pieces.narrow(0, 1000 * ranks.rank(), 1000);
    ranks.start_scatter_sum(pieces)();
    bool right = own.eq(3).all().item<bool>();
    own.fill_(ranks.rank());
    ranks.start_gather(pieces)();
    right = right && pieces.narrow(0, 0, 1000).eq(0).all().item<bool>() &&
            pieces.narrow(0, 1000, 1000).eq(1).all().item<bool>();
    right = right && x.eq(3).all().item<bool>() && first.eq(1).all().item<bool>();
    return right && std::string_view(ranks.transport()) == "gloo" ? 0 : 1;
  }));
}

nlohmann::json small_shape(const std::string& kind) {
  if (kind == "gpt2")
    return {{"model_type", "gpt2"}, {"n_layer", 2},      {"n_head", 2},
            {"n_embd", 64},         {"n_positions", 64}, {"vocab_size", 83}};
  return {{"model_type", kind},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", kind == "llama" ? 2 : 4},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"max_position_embeddings", 64},
          {"vocab_size", 83},
          {"tie_word_embeddings", true}};
}

StartingPoint draw_start(const std::string& kind, GateKind gate) {
  const Transformer dense = draw_model(read_model_config(small_shape(kind), kind), 3);
  if (gate != GateKind::kNone) return put_gates(dense, gate, 3.0, 0.5);
  return {dense.config(), dense.parameters()};
}

// The gradients of a step of two passes, where the kernels add up: in the leaves' own gradients, and in bfloat16 first.
Tensor step_gradients(const StartingPoint& start, const at::Device& device, at::ScalarType dtype,
                      const Tensor& tokens, bool recompute = false) {
  WeightOptions options;
  options.recompute = recompute;
  options.device = device, options.dtype = dtype, options.learn_bias = options.learn_idle = true;
  TrainedWeights weights(start.config, start.parameters, options);
  GateDraw draw;
  draw.seed = 11;
  for (int step = 0; step < 2; ++step) {  // the second finds what the first has left
    weights.zero_gradients();
    for (const Tensor& part : tokens.to(device).split(2)) {
      const Tensor lambda = at::ones({}, at::TensorOptions().dtype(at::kDouble).device(device));
      compute_pass_loss(weights.pass_model(), nullptr, {part, draw, lambda}, {}).loss.backward();
      weights.collect_gradients();
    }
  }
  return weights.gradients().cpu();
}

TEST(TrainingOnGpu, GradientsOfAStepAreTheCpus) {
  expect_all_right(run_ranks(1, [](Ranks&) {
    if (!has_gpu()) return kNoGpu;
    at::manual_seed(5);
    for (const std::string kind : {"gpt2", "llama", "olmo", "olmo2"}) {
      for (const GateKind gate : {GateKind::kNone, GateKind::kIdle}) {
        const StartingPoint start = draw_start(kind, gate);
        const Tensor tokens = at::randint(83, {4, 49}, at::kLong),
                     wanted = step_gradients(start, at::kCPU, at::kFloat, tokens);
        const auto error = [&](at::ScalarType dtype, bool recompute) {
          const Tensor seen = step_gradients(start, at::Device(at::kCUDA, 0), dtype, tokens, recompute);
          return ((seen - wanted).norm() / wanted.norm()).item<double>();
        };
        const double single = error(at::kFloat, false), again = error(at::kFloat, true),
                     half = error(at::kBFloat16, false);
        if (!(single <= 1e-4 && again <= 1e-4 && half <= 0.05)) {
          fmt::print(stderr, "{}, gate {}: {} and {} in float32, {} in bfloat16\n", kind, gate_name(gate),
                     single, again, half);
          return 1;
        }
      }
    }
    return 0;
  }));
}

// The weights after a run whose passes are of many kinds: two lengths, two passes a step, sampled and hard gates, a head
// penalty that moves, a teacher.
Tensor weights_of_run(const std::string& kind, at::ScalarType dtype, bool recorded) {
  setenv("OPENWORK_GRAPHS", recorded ? "1" : "0", 1);
  const at::Device device(at::kCUDA, 0);
  const TestFolder folder;
  const Transformer base = load_model("tests/data/" + kind);
  const StartingPoint start = put_gates(base, GateKind::kIdle, 3.0, 0.5);
  WeightOptions options{.device = device, .dtype = dtype, .learn_bias = true, .learn_idle = true};
  TrainedWeights weights(start.config, start.parameters, options);
  Batches batches(write_tokens(folder), 16, 3);
  LoopOptions loop = tiny_options(folder / "run", 16);
  loop.learning_rate = 1e-3, loop.checkpoint_every = 0;
  loop.lengths = {8, 16}, loop.accumulate = 2;
  loop.schedule.noise_anneal = 0.5, loop.schedule.head_penalty_end = 0.01;
  loop.loss.distill = 1, loop.loss.distill_every = 2;
  const Transformer teacher = move_to(base, dtype, device);
  run_loop(weights, batches, &teacher, loop);
  return weights.masters().cpu();
}

TEST(TrainingOnGpu, RecordedPassesAreThoseComputedToTheBit) {
  expect_all_right(run_ranks(1, [](Ranks&) {
    if (!has_gpu()) return kNoGpu;
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);  // dq's sums have an order then
    for (const std::string kind : {"gpt2", "llama", "olmo", "olmo2"}) {
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        const Tensor wanted = weights_of_run(kind, dtype, false), seen = weights_of_run(kind, dtype, true);
        if (seen.equal(wanted)) continue;
        fmt::print(stderr, "{} in {}: {} of {} weights differ, the most by {}\n", kind, c10::toString(dtype),
                   seen.ne(wanted).sum().item<int64_t>(), seen.numel(),
                   (seen - wanted).abs().max().item<double>());
        return 1;
      }
    }
    return 0;
  }));
}

// As in a resumed control, which has put nothing on the GPU when its memory is first asked for.
TEST(MemoryOnGpu, IsCountedFromBeforeItsFirstUse) {
  expect_all_right(run_ranks(1, [](Ranks&) {
    if (!has_gpu()) return kNoGpu;
    const at::Device device(at::kCUDA, 0);
    const PeakMemory peak(device);
    const at::Tensor x = at::zeros({1 << 20}, at::TensorOptions().device(device));
    return peak.bytes() >= x.numel() * x.element_size() ? 0 : 1;
  }));
}

TEST(RanksOnGpu, NcclIsCalledRightByOne) {
  expect_all_right(run_ranks(1, [](Ranks&) {
    if (!has_gpu() || !Nccl::is_here()) return kNoGpu;
    const at::Device device(at::kCUDA, 0);
    Nccl nccl(device, 0, 1, Nccl::make_id());
    bool right = true;
    for (const auto dtype : {at::kFloat, at::kDouble, at::kLong}) {
      const at::Tensor x = at::arange(100000, at::TensorOptions().device(device).dtype(dtype));
      const at::Tensor before = x.clone();
      nccl.start_sum(x)();
      nccl.broadcast(x);
      nccl.start_scatter_sum(x)();
      nccl.start_gather(x)();
      right = right && at::equal(x, before);
    }
    return right ? 0 : 1;
  }));
}

}  // namespace
}  // namespace openwork
