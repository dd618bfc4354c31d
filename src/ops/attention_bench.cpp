#include "ops/attention_bench.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "ops/attention_case.h"
#include "ops/gated_attention.h"
#include "ops/measure.h"

namespace openwork {
namespace {

using at::Tensor;

// Median milliseconds of one call; short ones are timed in batches so that launches overlap as in training.
double median_ms(const std::function<void()>& work, const at::Device& device, int repeats) {
  constexpr double kBatchSeconds = 0.02;
  work();
  const double once = seconds_of(work, device, 1);
  const int times = std::clamp(static_cast<int>(kBatchSeconds / std::max(once, 1e-6)), 1, 100);
  std::vector<double> seconds;
  for (int n = 0; n < repeats; ++n) seconds.push_back(seconds_of(work, device, times));
  std::nth_element(seconds.begin(), seconds.begin() + repeats / 2, seconds.end());
  return 1e3 * seconds[static_cast<size_t>(repeats / 2)];
}

struct Shape {
  int64_t B, H, T, d;
  std::string name() const {
    return "B" + std::to_string(B) + " H" + std::to_string(H) + " T" + std::to_string(T) + " d" + std::to_string(d);
  }
};

std::vector<Shape> list_shapes(const AttentionBenchOptions& options) {
  if (options.device.is_cpu()) {
    std::vector<Shape> shapes = {{1, 8, 1024, 64}, {2, 8, 512, 64}};
    if (options.long_sequences) shapes.insert(shapes.end(), {{1, 4, 2048, 64}, {1, 2, 4096, 64}});
    return shapes;
  }
  std::vector<Shape> shapes = {{16, 12, 1024, 64}, {2, 32, 2048, 128}, {32, 12, 512, 64}};
  if (options.long_sequences) {
    for (int64_t T = 2048; T <= 16384; T *= 2) shapes.push_back({16384 / T, 12, T, 64});
  }
  return shapes;
}

using Call = std::function<GatedAttentionResult(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>;

struct Way {
  std::string name;
  Call call;
  bool backward = true;
};

Call dense_call() {
  return [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
    return GatedAttentionResult{at::scaled_dot_product_attention(q, k, v, {}, 0.0, true), {}, {}};
  };
}

Call gated_call(bool plain, std::string_view gate, std::optional<int64_t> seed, const Tensor& uniforms) {
  if (!plain) {
    return [=](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
      return gated_attention(q, k, v, b, std::nullopt, gate, seed);
    };
  }
  return [=](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
    const Tensor noise = uniforms.defined() ? uniforms.narrow(0, 0, q.size(0)) : uniforms;
    return gated_attention_with_uniforms(q, k, v, b, std::nullopt, gate, noise);
  };
}

// Out and penalty pulled back to all inputs at once, as training does.
void run_backward(const Way& way, const AttentionInputs& inputs) {
  const at::AutoGradMode on(true);
  std::vector<Tensor> leaves;
  for (const Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.bias}) leaves.push_back(tensor->detach().requires_grad_());
  const GatedAttentionResult result = way.call(leaves[0], leaves[1], leaves[2], leaves[3]);
  if (!result.penalty.defined()) {
    torch::autograd::grad({result.out}, {leaves[0], leaves[1], leaves[2]}, {inputs.grad_out});
    return;
  }
  torch::autograd::grad({result.out, result.penalty}, leaves, {inputs.grad_out, inputs.grad_penalty.to(result.penalty.dtype())});
}

// Error of the first sequence's first head against float64 on the same rounded inputs.
double relative_error(const Way& way, const AttentionInputs& inputs, std::string_view gate, std::optional<int64_t> seed) {
  constexpr int64_t kLargest = 4096;  // beyond it the float64 reference is too large to be worth it
  if (inputs.q.size(2) > kLargest) return -1;
  const at::NoGradGuard no_grad;
  const auto first = [](const Tensor& x) { return x.narrow(0, 0, 1); };
  const Tensor out = way.call(first(inputs.q), first(inputs.k), first(inputs.v), inputs.bias).out.narrow(1, 0, 1).to(at::kDouble);
  const auto wide = [&](const Tensor& x) { return first(x).narrow(1, 0, 1).to(at::kDouble); };
  Tensor wanted;
  if (gate.empty()) {
    wanted = at::scaled_dot_product_attention(wide(inputs.q), wide(inputs.k), wide(inputs.v), {}, 0.0, true);
  } else {
    // Head 0's uniforms do not depend on how many heads there are.
    wanted = gated_attention_reference(wide(inputs.q), wide(inputs.k), wide(inputs.v),
                                       inputs.bias.narrow(0, 0, 1).to(at::kDouble), std::nullopt, gate, seed)
                 .out;
  }
  return ((out - wanted).norm() / wanted.norm().clamp_min(1e-30)).item<double>();
}

class Bench {
 public:
  Bench(const AttentionBenchOptions& options, const std::function<void(const AttentionBenchRow&)>& visit) : options_(options), visit_(visit) {}

  void run_shape(const Shape& shape) {
    AttentionCase described{shape.B, shape.H, shape.H, shape.T, shape.d};
    described.dtype = options_.dtype;
    const AttentionInputs inputs = make_inputs(described).to(options_.device);
    measure(shape, inputs, {"dense", dense_call()}, "", {});
    // The plain form stores several T x T tensors per head: run it where they fit.
    const bool fits = static_cast<double>(shape.B * shape.H) * static_cast<double>(shape.T * shape.T) <= 6e8;
    constexpr int64_t kSeed = 1234;
    constexpr double kLogProbBias = 5;  // where post-training starts: a few percent open
    for (const std::string_view gate : {kGateScore, kGateLogProb}) {
      AttentionInputs gated = inputs;
      if (gate == kGateLogProb) gated.bias = inputs.bias + kLogProbBias;
      for (const bool sampled : {false, true}) {
        const std::optional<int64_t> seed = sampled ? std::optional<int64_t>(kSeed) : std::nullopt;
        const std::string ending = std::string(gate) + (sampled ? " sampled" : " hard");
        if (fits) {
          const Tensor uniforms = sampled ? gate_uniforms(shape.B, shape.H, shape.T, kSeed).to(options_.device, at::kFloat) : Tensor();
          measure(shape, gated, {"plain " + ending, gated_call(true, gate, seed, uniforms)}, gate, seed);
        }
        measure(shape, gated, {"openwork " + ending, gated_call(false, gate, seed, {})}, gate, seed);
      }
    }
    run_sparse(shape, inputs);
  }

  std::vector<AttentionBenchRow> take() { return std::move(rows_); }

 private:
  // Inference where 1 % of the edges are open: near the diagonal and the first tokens, as trained sparse models
  // have them, or spread evenly.
  void run_sparse(const Shape& shape, const AttentionInputs& inputs) {
    AttentionInputs clustered = inputs;
    const auto options = at::TensorOptions().dtype(at::kFloat).device(options_.device);
    const Tensor position = at::arange(shape.T, options).unsqueeze(1);                                         // [T, 1]
    const Tensor frequency = at::pow(0.1, at::linspace(0, 3, shape.d / 2, options)).unsqueeze(0);               // [1, d/2]
    const Tensor features = at::cat({(position * frequency).cos(), (position * frequency).sin()}, 1) * 1.5;     // [T, d]
    const Tensor sink = at::zeros({shape.T, shape.d}, options);
    sink.narrow(0, 0, 4).copy_(features.mean(0, true).expand({4, shape.d}) * 6);
    clustered.q = (0.3 * inputs.q.to(at::kFloat) + features).to(options_.dtype);
    clustered.k = (0.3 * inputs.k.to(at::kFloat) + features + sink).to(options_.dtype);
    for (const bool even : {false, true}) {
      AttentionInputs sparse = even ? inputs : clustered;
      sparse.bias = at::full_like(inputs.bias, score_bias_for(sparse, 0.01));
      const std::string name = std::string("openwork score hard, 1 % ") + (even ? "spread evenly" : "clustered");
      measure(shape, sparse, {name, gated_call(false, kGateScore, std::nullopt, {}), false}, kGateScore, {});
    }
  }

  // The bias that leaves about `share` of the first head's causal scores above 0.
  static double score_bias_for(const AttentionInputs& inputs, double share) {
    const int64_t T = inputs.q.size(2), step = std::max<int64_t>(1, T / 256);
    const Tensor rows = at::arange(0, T, step, inputs.q.options().dtype(at::kLong));
    const Tensor q = inputs.q[0][0].index_select(0, rows).to(at::kFloat), k = inputs.k[0][0].to(at::kFloat);
    const Tensor scores = at::matmul(q, k.t()) / std::sqrt(static_cast<double>(inputs.q.size(3)));
    const Tensor keys = at::arange(T, rows.options());
    const Tensor causal = scores.masked_select(keys.unsqueeze(0) <= rows.unsqueeze(1));
    const int64_t kept = std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(causal.numel())));
    const Tensor largest = std::get<0>(causal.topk(kept + 1));
    return -(largest[kept] + largest[kept - 1]).item<double>() / 2;  // between two scores, so that none sits on the edge
  }

  void measure(const Shape& shape, const AttentionInputs& inputs, const Way& way, std::string_view gate, std::optional<int64_t> seed) {
    AttentionBenchRow row;
    row.shape = shape.name();
    row.way = way.name;
    {
      const at::NoGradGuard no_grad;
      row.forward_ms = median_ms([&] { way.call(inputs.q, inputs.k, inputs.v, inputs.bias); }, options_.device, options_.repeats);
      const GatedAttentionResult result = way.call(inputs.q, inputs.k, inputs.v, inputs.bias);
      const double pairs = static_cast<double>(shape.B * shape.H) * static_cast<double>(shape.T * (shape.T + 1) / 2);
      if (result.active.defined()) row.open_share = result.active.sum().item<double>() / pairs;
    }
    row.error = relative_error(way, inputs, gate, seed);
    if (way.backward) {
      row.forward_backward_ms = median_ms([&] { run_backward(way, inputs); }, options_.device, options_.repeats);
      row.peak_megabytes = peak_megabytes([&] { run_backward(way, inputs); }, options_.device);
    }
    if (way.name == "dense") dense_ = row;
    row.forward_ratio = row.forward_ms / dense_.forward_ms;
    if (way.backward) row.forward_backward_ratio = row.forward_backward_ms / dense_.forward_backward_ms;
    visit_(row);
    rows_.push_back(row);
  }

  AttentionBenchOptions options_;
  std::function<void(const AttentionBenchRow&)> visit_;
  AttentionBenchRow dense_;
  std::vector<AttentionBenchRow> rows_;
};

}  // namespace

std::vector<AttentionBenchRow> bench_attention(const AttentionBenchOptions& options,
                                               const std::function<void(const AttentionBenchRow&)>& visit) {
  Bench bench(options, visit);
  for (const Shape& shape : list_shapes(options)) bench.run_shape(shape);
  return bench.take();
}

}  // namespace openwork
