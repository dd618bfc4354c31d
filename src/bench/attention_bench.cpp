#include "bench/attention_bench.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "base/median.h"
#include "bench/attention_case.h"
#include "bench/measure.h"
#include "ops/gated_attention.h"
#include "ops/gated_inference.h"

namespace openwork {
namespace {

using at::Tensor;

struct Timed {
  double ms = -1;     // of one call
  double ratio = -1;  // to the plain work
};

// Medians of `repeats` rounds in which the plain work takes its turn before the other, so that a machine that slows
// down slows both. Short calls are timed in batches: launches overlap as in training.
Timed time_beside(const std::function<void()>& plain, const std::function<void()>& work,
                  const at::Device& device, int repeats) {
  constexpr double kBatchSeconds = 0.02;
  const auto batch_of = [&](const std::function<void()>& call) {
    call();
    const double once = seconds_of(call, device, 1);
    return std::clamp(static_cast<int>(kBatchSeconds / std::max(once, 1e-6)), 1, 100);
  };
  const int plain_batch = batch_of(plain), batch = batch_of(work);
  std::vector<double> seconds, ratios;
  for (int n = 0; n < repeats; ++n) {
    const double beside = seconds_of(plain, device, plain_batch);
    seconds.push_back(seconds_of(work, device, batch));
    ratios.push_back(seconds.back() / beside);
  }
  return {1e3 * median(seconds), median(ratios)};
}

std::vector<AttentionShape> list_shapes(const AttentionBenchOptions& options) {
  if (options.shape) return {*options.shape};
  if (options.device.is_cpu()) {
    std::vector<AttentionShape> shapes = {{1, 4, 1024, 64}, {2, 8, 512, 64}};
    if (options.long_sequences) shapes.insert(shapes.end(), {{1, 4, 2048, 64}, {1, 2, 4096, 64}});
    return shapes;
  }
  std::vector<AttentionShape> shapes = {{16, 12, 1024, 64}, {2, 32, 2048, 128}, {32, 12, 512, 64}};
  if (options.long_sequences) {
    for (int64_t T = 2048; T <= 16384; T *= 2) shapes.push_back({16384 / T, 12, T, 64});
  }
  return shapes;
}

constexpr double kStartingBias = 5, kStartingIdle = 5;  // where post-training starts: a few percent open

using Call = std::function<GatedAttentionResult(const AttentionInputs&)>;

struct Way {
  std::string name;
  Call call;
  bool backward = true;
};

std::optional<Tensor> idle_of(const AttentionInputs& inputs) {
  return inputs.idle.defined() ? std::optional(inputs.idle) : std::nullopt;
}

Call dense_call() {
  return [](const AttentionInputs& in) {
    return GatedAttentionResult{at::scaled_dot_product_attention(in.q, in.k, in.v, {}, 0.0, true), {}, {}};
  };
}

Call gated_call(bool plain, std::string_view gate, std::optional<int64_t> seed, const Tensor& uniforms) {
  if (!plain) {
    return [=](const AttentionInputs& in) {
      return gated_attention(in.q, in.k, in.v, in.bias, idle_of(in), gate, seed);
    };
  }
  return [=](const AttentionInputs& in) {
    const Tensor noise = uniforms.defined() ? uniforms.narrow(0, 0, in.q.size(0)) : uniforms;
    return gated_attention_with_uniforms(in.q, in.k, in.v, in.bias, idle_of(in), gate, noise);
  };
}

// Hard gates, and nothing but z.
Call inference_call(std::string_view gate) {
  return [kind = *find_gate(gate)](const AttentionInputs& in) {
    const double scale = 1 / std::sqrt(static_cast<double>(in.q.size(3)));
    return GatedAttentionResult{gated_inference(in.q, in.k, in.v, in.bias, in.idle, kind, scale), {}, {}};
  };
}

// Out and penalty pulled back to all inputs at once, as training does.
void run_backward(const Way& way, const AttentionInputs& inputs) {
  const at::AutoGradMode on(true);
  AttentionInputs tracked = inputs;
  std::vector<Tensor> leaves;
  for (Tensor* tensor : {&tracked.q, &tracked.k, &tracked.v, &tracked.bias, &tracked.idle}) {
    if (tensor->defined()) leaves.push_back(*tensor = tensor->detach().requires_grad_());
  }
  const GatedAttentionResult result = way.call(tracked);
  if (!result.penalty.defined()) {
    torch::autograd::grad({result.out}, {leaves[0], leaves[1], leaves[2]}, {inputs.grad_out});
    return;
  }
  torch::autograd::grad({result.out, result.penalty}, leaves,
                        {inputs.grad_out, inputs.grad_penalty.to(result.penalty.dtype())});
}

// Error of the first sequence's first head against float64 on the same rounded inputs.
double relative_error(const Way& way, const AttentionInputs& inputs, std::string_view gate,
                      std::optional<int64_t> seed) {
  constexpr int64_t kLargest = 4096;  // beyond it the float64 reference is too large to be worth it
  if (inputs.q.size(2) > kLargest) return -1;
  const at::NoGradGuard no_grad;
  const auto first = [](const Tensor& x) { return x.narrow(0, 0, 1); };
  AttentionInputs one = inputs;
  one.q = first(inputs.q), one.k = first(inputs.k), one.v = first(inputs.v);
  const Tensor out = way.call(one).out.narrow(1, 0, 1).to(at::kDouble);
  // Head 0's uniforms do not depend on how many heads there are.
  for (Tensor* tensor : {&one.q, &one.k, &one.v}) *tensor = tensor->narrow(1, 0, 1).to(at::kDouble);
  for (Tensor* tensor : {&one.bias, &one.idle}) {
    if (tensor->defined()) *tensor = tensor->narrow(0, 0, 1).to(at::kDouble);
  }
  const Tensor wanted =
      gate.empty() ? dense_call()(one).out
                   : gated_attention_reference(one.q, one.k, one.v, one.bias, idle_of(one), gate, seed).out;
  return ((out - wanted).norm() / wanted.norm().clamp_min(1e-30)).item<double>();
}

class Bench {
 public:
  Bench(const AttentionBenchOptions& options, const std::function<void(const AttentionBenchRow&)>& visit)
      : options_(options), visit_(visit) {}

  void run_shape(const AttentionShape& shape) {
    AttentionCase described{shape.B, shape.H, shape.H, shape.T, shape.d};
    described.dtype = options_.dtype;
    const AttentionInputs inputs = make_inputs(described).to(options_.device);
    dense_inputs_ = inputs;
    measure(shape, inputs, {"dense", dense_call()}, "", {});
    // The plain form stores several T x T tensors per head: run it where they fit.
    const bool fits = static_cast<double>(shape.B * shape.H) * static_cast<double>(shape.T * shape.T) <= 6e8;
    constexpr int64_t kSeed = 1234;
    // Made once, on the CPU: it takes longer than most of what is timed, and a device holds it for the plain form alone.
    const Tensor drawn = fits ? gate_uniforms(shape.B, shape.H, shape.T, kSeed).to(at::kFloat) : Tensor();
    for (const std::string_view gate : {kGateScore, kGateLogProb, kGateIdle}) {
      AttentionInputs gated = inputs;
      if (gate != kGateScore) gated.bias = inputs.bias + kStartingBias;
      if (gate == kGateIdle) gated.idle = at::full_like(inputs.bias, kStartingIdle);
      for (const bool sampled : {false, true}) {
        const std::optional<int64_t> seed = sampled ? std::optional<int64_t>(kSeed) : std::nullopt;
        const std::string ending = std::string(gate) + (sampled ? " sampled" : " hard");
        if (fits) {
          const Tensor uniforms = sampled ? drawn.to(options_.device) : Tensor();
          measure(shape, gated, {"plain " + ending, gated_call(true, gate, seed, uniforms)}, gate, seed);
        }
        measure(shape, gated, {"openwork " + ending, gated_call(false, gate, seed, {})}, gate, seed);
        if (!sampled)
          measure(shape, gated, {"openwork " + ending + ", z alone", inference_call(gate), false}, gate, {});
      }
    }
    if (shape.T > 1) run_sparse(shape, inputs);
  }

  std::vector<AttentionBenchRow> take() { return std::move(rows_); }

 private:
  // Inference where 1 % of the edges are open: near the diagonal and the first tokens, as trained sparse models
  // have them, or spread evenly.
  void run_sparse(const AttentionShape& shape, const AttentionInputs& inputs) {
    AttentionInputs clustered = inputs;
    const auto options = at::TensorOptions().dtype(at::kFloat).device(options_.device);
    const Tensor position = at::arange(shape.T, options).unsqueeze(1);  // [T, 1]
    // The slowest wave has not come round at the end of the sequence, or far keys would look like near ones.
    const Tensor angle =
        position * at::pow(static_cast<double>(shape.T), -at::linspace(0, 1, (shape.d + 1) / 2, options))
                       .unsqueeze(0);                                                            // [T, d/2]
    const Tensor features = at::cat({angle.cos(), angle.sin()}, 1).narrow(1, 0, shape.d) * 1.5;  // [T, d]
    const Tensor sink = at::zeros({shape.T, shape.d}, options);
    sink.narrow(0, 0, std::min<int64_t>(4, shape.T)).copy_(features.mean(0, true) * 6);
    clustered.q = (0.3 * inputs.q.to(at::kFloat) + features).to(options_.dtype);
    clustered.k = (0.3 * inputs.k.to(at::kFloat) + features + sink).to(options_.dtype);
    for (const bool even : {false, true}) {
      for (const std::string_view gate : {kGateScore, kGateIdle}) {
        AttentionInputs sparse = even ? inputs : clustered;
        if (gate == kGateIdle) sparse.idle = at::full_like(inputs.bias, kStartingIdle);
        sparse.bias = at::full_like(inputs.bias, bias_for(sparse, 0.01));
        const std::string name =
            fmt::format("openwork {} hard, 1 % {}", gate, even ? "spread evenly" : "clustered");
        if (gate == kGateScore)
          measure(shape, sparse, {name, gated_call(false, gate, std::nullopt, {}), false}, gate, {});
        measure(shape, sparse, {name + ", z alone", inference_call(gate), false}, gate, {});
      }
    }
  }

  // The bias that leaves about `share` of the first head's causal edges open.
  static double bias_for(const AttentionInputs& inputs, double share) {
    const int64_t T = inputs.q.size(2), step = std::max<int64_t>(1, T / 256);
    const Tensor rows = at::arange(0, T, step, inputs.q.options().dtype(at::kLong));
    const Tensor q = inputs.q[0][0].index_select(0, rows).to(at::kFloat), k = inputs.k[0][0].to(at::kFloat);
    const Tensor keys = at::arange(T, rows.options());
    const Tensor causal = keys.unsqueeze(0) <= rows.unsqueeze(1);
    const Tensor scores = (at::matmul(q, k.t()) / std::sqrt(static_cast<double>(inputs.q.size(3))))
                              .masked_fill(~causal, -INFINITY);
    Tensor gates = scores;  // g without the bias
    if (inputs.idle.defined()) {
      const Tensor L = scores.logsumexp(1, true);
      gates = scores - L + at::log_sigmoid(L - inputs.idle[0].to(at::kFloat));
    }
    const Tensor seen = gates.masked_select(causal);
    const int64_t kept =
        std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(seen.numel())));
    const Tensor largest = std::get<0>(seen.topk(kept + 1));
    // Between two of them, so that none sits on the edge.
    return -(largest[kept] + largest[kept - 1]).item<double>() / 2;
  }

  static double open_share(const GatedAttentionResult& result, const AttentionShape& shape) {
    return result.active.sum().item<double>() /
           (static_cast<double>(shape.B * shape.H) * static_cast<double>(shape.T * (shape.T + 1) / 2));
  }

  void measure(const AttentionShape& shape, const AttentionInputs& inputs, const Way& way,
               std::string_view gate, std::optional<int64_t> seed) {
    AttentionBenchRow row;
    row.shape = shape.name();
    row.way = way.name;
    const Way dense{"dense", dense_call()};
    {
      const at::NoGradGuard no_grad;
      const Timed timed = time_beside([&] { dense.call(dense_inputs_); }, [&] { way.call(inputs); },
                                      options_.device, options_.repeats);
      row.forward_ms = timed.ms, row.forward_ratio = timed.ratio;
      if (!gate.empty()) row.open_share = open_share(gated_call(false, gate, seed, {})(inputs), shape);
    }
    row.error = relative_error(way, inputs, gate, seed);
    if (way.backward) {
      const auto both = [&] { run_backward(way, inputs); };
      const Timed timed =
          time_beside([&] { run_backward(dense, dense_inputs_); }, both, options_.device, options_.repeats);
      row.forward_backward_ms = timed.ms, row.forward_backward_ratio = timed.ratio;
      row.peak_megabytes = peak_megabytes(both, options_.device);
    }
    visit_(row);
    rows_.push_back(row);
  }

  AttentionBenchOptions options_;
  std::function<void(const AttentionBenchRow&)> visit_;
  AttentionInputs dense_inputs_;  // of this shape: dense is timed beside every way
  std::vector<AttentionBenchRow> rows_;
};

}  // namespace

std::string AttentionShape::name() const {
  return fmt::format("B{} H{} T{} d{}", B, H, T, d);
}

std::vector<AttentionBenchRow> bench_attention(const AttentionBenchOptions& options,
                                               const std::function<void(const AttentionBenchRow&)>& visit) {
  Bench bench(options, visit);
  for (const AttentionShape& shape : list_shapes(options)) bench.run_shape(shape);
  return bench.take();
}

}  // namespace openwork
