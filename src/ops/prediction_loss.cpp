#include "ops/prediction_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>

#include "ops/fused_kernels.h"
#include "ops/vocabulary_product.h"

namespace openwork {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A chunk's logits. On a GPU large enough that products fill it (2,048 rows of SmolLM2's vocabulary in
// bfloat16) and that adding up dW in memory costs little beside them, small beside the layers' activations. A
// CPU's products are full long before, and softmax in ATen's calls holds two to five times the logits there.
constexpr int64_t kChunkBytes = 256 << 20, kChunkBytesOnCpu = 64 << 20;

at::ScalarType wide_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor logits_of(const Tensor& x, const Unembedding& unembedding, const Tensor& room) {
  Tensor logits = room.narrow(0, 0, x.size(0));
  multiply_vocabulary(logits, x, unembedding.weight);
  return unembedding.bias.defined() ? logits.add_(unembedding.bias) : logits;
}

// The walk of one call: what it reads, what it adds up, and the room its chunks use one after another.
struct Walk {
  Tensor hidden, targets;
  Unembedding unembedding;
  TeacherRows teacher;
  bool for_hidden = false, for_weight = false, for_bias = false;
  Tensor cross_entropy, distance;              // [N], [M]
  Tensor grad_hidden, grad_weight, grad_bias;  // N times dloss/d...; the last two wide
  Tensor room, teacher_room;                   // [chunk, V]

  at::ScalarType wide() const { return wide_type(hidden.scalar_type()); }
  bool has_slopes() const { return for_hidden || for_weight || for_bias; }

  void run(int64_t chunk) {
    const int64_t N = hidden.size(0), M = teacher.hidden.defined() ? teacher.hidden.size(0) : 0;
    start(N, M, std::min(chunk, N));
    for (int64_t from = 0; from < N;) {
      const bool taught = from < M;
      const int64_t rows = std::min(chunk, (taught ? M : N) - from);
      const Tensor x = hidden.narrow(0, from, rows), y = targets.narrow(0, from, rows);
      const Tensor logits = logits_of(x, unembedding, room);
      const Tensor slopes = taught ? learn(logits, y, from) : predict(logits, y, from);
      if (has_slopes()) add_gradients(x, slopes, from);
      from += rows;
    }
    room.reset(), teacher_room.reset();
  }

  void start(int64_t N, int64_t M, int64_t chunk) {
    const int64_t V = unembedding.weight.size(0);
    const auto sums = hidden.options().dtype(wide());
    cross_entropy = at::empty({N}, sums), distance = at::empty({M}, sums);
    room = empty_logits(hidden, chunk, V);
    if (M > 0) teacher_room = empty_logits(teacher.hidden, std::min(chunk, M), V);
    if (for_hidden) grad_hidden = at::empty_like(hidden);
    if (for_weight) grad_weight = at::zeros(unembedding.weight.sizes(), sums);
    if (for_bias) grad_bias = at::zeros({V}, sums);
  }

  // Losses of rows without a teacher, and P - 1[target].
  Tensor predict(const Tensor& logits, const Tensor& y, int64_t from) {
    if (has_kernel(logits)) return predict_by_kernel(logits, y, from);
    Tensor p = at::log_softmax(logits, 1, wide());
    keep(cross_entropy, from, -p.gather(1, y.unsqueeze(1)));
    return has_slopes() ? finish_slopes(p.exp_(), logits, y) : Tensor();
  }

  Tensor predict_by_kernel(const Tensor& logits, const Tensor& y, int64_t from) {
    static const auto forward =
        find_kernel<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&)>("openwork::cross_entropy");
    static const auto backward =
        find_kernel<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>(
            "openwork::cross_entropy_backward");
    const auto [losses, log_sum_exp] = forward.call(logits, y);
    keep(cross_entropy, from, losses);
    if (!has_slopes()) return {};
    const auto rows = static_cast<double>(y.size(0));  // the kernel's gradients are of the mean
    return backward.call(at::full({}, rows, losses.options()), logits, y, log_sum_exp);
  }

  // Losses and distances of rows with a teacher, and (1 + r) P - r T - 1[target].
  Tensor learn(const Tensor& logits, const Tensor& y, int64_t from) {
    const Tensor x = teacher.hidden.narrow(0, from, y.size(0));
    Tensor t = at::log_softmax(logits_of(x, teacher.unembedding, teacher_room), 1, wide());
    Tensor p = at::log_softmax(logits, 1, wide());
    keep(cross_entropy, from, -p.gather(1, y.unsqueeze(1)));
    Tensor apart = t - p;
    keep(distance, from, apart.mul_(t.exp_()).sum(1));
    if (!has_slopes()) return {};
    const double r = teacher.weight * static_cast<double>(hidden.size(0));
    return finish_slopes(p.exp_().mul_(1 + r).sub_(t, r), logits, y);
  }

  static void keep(const Tensor& all, int64_t from, const Tensor& rows) {
    all.narrow(0, from, rows.size(0)).copy_(rows.flatten());
  }

  // One less at the targets, and in the dtype that products are in: into the logits' room.
  static Tensor finish_slopes(Tensor p, Tensor logits, const Tensor& y) {
    const Tensor place = y.unsqueeze(1);
    p.scatter_(1, place, p.gather(1, place) - 1);
    return p.scalar_type() == logits.scalar_type() ? p : logits.copy_(p);
  }

  // sum += a b. A GPU's products of bfloat16 and float16 end in float32 and are added up there; elsewhere a product is
  // rounded first.
  static void add_product(Tensor sum, const Tensor& a, const Tensor& b) {
    if (b.scalar_type() == sum.scalar_type()) {
      sum.addmm_(a, b);
    } else if (b.is_cuda()) {
      at::addmm_out(sum, sum, a, b, sum.scalar_type());
    } else {
      sum.add_(at::mm(a, b));
    }
  }

  void add_gradients(const Tensor& x, const Tensor& slopes, int64_t from) {
    if (for_hidden) multiply_slopes(grad_hidden.narrow(0, from, x.size(0)), slopes, unembedding.weight);
    if (for_bias) grad_bias.add_(slopes.sum(0, false, wide()));
    if (!for_weight) return;
    for (const auto& [first, count] : vocabulary_parts(x, slopes.size(1))) {
      Tensor part = grad_weight.narrow(0, first, count);
      const Tensor rows = slopes.narrow(1, first, count).t();
      add_product(part, rows, x);
    }
  }
};

struct WalkHolder : torch::CustomClassHolder {
  Walk walk;
  int64_t chunk = 0;
};

Tensor scaled(Tensor sum, const Tensor& scale, at::ScalarType dtype) {
  // A scale of one dimension is not rounded to bfloat16 before it multiplies.
  return sum.defined() ? sum.mul_(scale.reshape({1})).to(dtype) : sum;
}

struct Predictions : torch::autograd::Function<Predictions> {
  // hidden, weight and bias are the walk's own; they are named again for the graph.
  static variable_list forward(AutogradContext* context, const Tensor& hidden, const Tensor& weight,
                               const std::optional<Tensor>&, const c10::intrusive_ptr<WalkHolder>& holder) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Walk& walk = holder->walk;
    walk.run(holder->chunk);
    context->save_for_backward({walk.grad_hidden, walk.grad_weight, walk.grad_bias});
    context->saved_data["rows"] = hidden.size(0);
    context->saved_data["dtype"] = static_cast<int64_t>(weight.scalar_type());
    const Tensor loss = walk.cross_entropy.mean() + walk.teacher.weight * walk.distance.sum();
    context->mark_non_differentiable({walk.cross_entropy, walk.distance});
    return {loss, walk.cross_entropy, walk.distance};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto sums = context->get_saved_variables();
    const auto dtype = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    const Tensor scale = grads[0] / static_cast<double>(context->saved_data["rows"].toInt());
    return {scaled(sums[0], scale, dtype), scaled(sums[1], scale, dtype), scaled(sums[2], scale, dtype),
            Tensor()};
  }
};

}  // namespace

PredictionLoss prediction_loss(const Tensor& hidden, const Unembedding& unembedding, const Tensor& targets,
                               const TeacherRows& teacher, int64_t chunk) {
  const auto holder = c10::make_intrusive<WalkHolder>();
  Walk& walk = holder->walk;
  const auto wants = [](const Tensor& x) {
    return at::GradMode::is_enabled() && x.defined() && x.requires_grad();
  };
  walk.for_hidden = wants(hidden), walk.for_weight = wants(unembedding.weight),
  walk.for_bias = wants(unembedding.bias);
  const auto detached = [](const Tensor& x) { return x.defined() ? x.detach() : x; };
  walk.hidden = hidden.detach().contiguous(), walk.targets = targets.contiguous();
  walk.unembedding = {unembedding.weight.detach(), detached(unembedding.bias)};
  walk.teacher = {detached(teacher.hidden),
                  {detached(teacher.unembedding.weight), detached(teacher.unembedding.bias)},
                  teacher.hidden.defined() ? teacher.weight : 0};
  const int64_t V = unembedding.weight.size(0);
  holder->chunk = chunk > 0 ? chunk : prediction_chunk(V, hidden.scalar_type(), hidden.device());
  const variable_list result = Predictions::apply(
      hidden, unembedding.weight,
      unembedding.bias.defined() ? std::optional<Tensor>(unembedding.bias) : std::nullopt, holder);
  return {result[0], result[1], result[2]};
}

int64_t prediction_chunk(int64_t V, at::ScalarType dtype, const at::Device& device) {
  const int64_t row = V * static_cast<int64_t>(c10::elementSize(dtype)),
                rows = (device.is_cpu() ? kChunkBytesOnCpu : kChunkBytes) / row;
  // A power of two: batches usually are, and chunks of one size want one kernel.
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, rows))));
}

int64_t prediction_scratch(int64_t N, int64_t taught, int64_t V, at::ScalarType dtype,
                           const at::Device& device) {
  const int64_t chunk = std::min(N, prediction_chunk(V, dtype, device)), few = std::min(taught, chunk);
  const auto narrow = static_cast<int64_t>(c10::elementSize(dtype)),
             wide = static_cast<int64_t>(c10::elementSize(wide_type(dtype)));
  const int64_t copy = narrow == wide ? 0 : wide;  // ATen's softmax of float32 reads such
  const int64_t of_chunk = device.is_cpu() ? wide + copy : narrow;
  return V * (chunk * narrow + few * narrow + std::max(chunk * of_chunk, few * 3 * wide));
}

}  // namespace openwork
