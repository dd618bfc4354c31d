#include "analyze/circuits/edge_runner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analyze/circuits/share_rows.h"

namespace openwork {
namespace {

constexpr double kAttributionBytes = 2e9, kPassBytes = 3e8;

Task slice_task(const Task& task, int64_t first, int64_t count) {
  Task part = task;
  part.prompts.assign(task.prompts.begin() + first, task.prompts.begin() + first + count);
  return part;
}

}  // namespace

// One pass: the stream, and how far each source's replacement is from its present value.
struct EdgeRunner::SplitRun {
  Tensor x;             // [S, P, T, D]
  Tensor mask;          // [S, destinations, sources]: how much of each edge is replaced
  Tensor deltas;        // [S, sources, P T D]
  Tensor replacements;  // [sources, P or 1, T, D]; undefined where deltas are given and stay
  int64_t known = 0;    // sources written so far

  // Notes the values [S, count, P, T, D] of the next sources.
  void write(const Tensor& values) {
    const int64_t count = values.size(1);
    if (replacements.defined()) {
      deltas.narrow(1, known, count)
          .copy_((replacements.narrow(0, known, count).unsqueeze(0) - values).flatten(2));
    }
    known += count;
  }
  // The stream as `count` destinations from `first` on see it: [S, count, P, T, D].
  Tensor read(int64_t first, int64_t count, int64_t visible) const {
    const Tensor changes =
        at::matmul(mask.narrow(1, first, count).narrow(2, 0, visible), deltas.narrow(1, 0, visible));
    return x.unsqueeze(1) + changes.view({x.size(0), count, x.size(1), x.size(2), x.size(3)});
  }
};

EdgeRunner::EdgeRunner(const Transformer& model, const Task& task, AblationRunner& runner)
    : model_(model), task_(task), runner_(runner), graph_(model.config()) {
  const ModelConfig& config = model.config();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (const HeadInput input : {HeadInput::kQuery, HeadInput::kKey, HeadInput::kValue})
      projections_.push_back(projection(layer, input));
  }
}

// What the heads of a layer add to the stream, [S, P, T, D]; each head's part is noted.
Tensor EdgeRunner::run_heads(SplitRun& run, int64_t layer) const {
  const ModelConfig& config = model_.config();
  const int64_t S = run.x.size(0), P = run.x.size(1), T = run.x.size(2), H = config.heads,
                visible = run.known;
  const auto input = [&](HeadInput which) {
    return project(layer, which, run.read(graph_.head_destination(layer, which, 0), H, visible));
  };
  const Tensor q = input(HeadInput::kQuery), k = input(HeadInput::kKey), v = input(HeadInput::kValue);
  const Tensor z = attend({q,
                           k,
                           v,
                           model_.layer(layer).gate_bias,
                           model_.layer(layer).gate_idle,
                           config.gate,
                           config.score_scale(layer),
                           layer,
                           {},
                           nullptr})
                       .z;
  const Linear& output = model_.layer(layer).attention_output;
  const Tensor by_head = output.matrix().t().reshape({H, config.head_size, config.width});
  const Tensor rows = z.view({S, P, H, T, -1}).permute({0, 2, 1, 3, 4}).reshape({S, H, P * T, -1});
  const Tensor parts = at::matmul(rows, by_head).view({S, H, P, T, -1});  // [S, H, P, T, D]
  run.write(norm_head_parts(model_, layer, parts, 1));
  Tensor sum = parts.sum(1);
  if (output.bias.defined()) sum = sum + output.bias;
  return config.norm_placement == NormPlacement::kAfter ? model_.apply_norm(model_.layer(layer).norm1, sum)
                                                        : sum;
}

Tensor EdgeRunner::run_split(SplitRun& run, const TaskMetricReader& reader) const {
  const ModelConfig& config = model_.config();
  const int64_t S = run.x.size(0), P = run.x.size(1), T = run.x.size(2);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const int64_t before = run.known;
    const Tensor attention = run_heads(run, layer);
    if (!config.parallel_residual) run.x = run.x + attention;
    const Tensor input =
        run.read(graph_.mlp_destination(layer), 1, config.parallel_residual ? before : run.known);
    const Tensor mlp = model_.mlp_output(input.reshape({S * P, T, -1}), layer).view({S, 1, P, T, -1});
    run.write(mlp);
    run.x = run.x + mlp.squeeze(1);
    if (config.parallel_residual) run.x = run.x + attention;
  }
  const Tensor last = run.read(graph_.logits(), 1, run.known).view({S * P, T, -1});
  return reader.read(last.narrow(1, reader.output_from(), T - reader.output_from()));
}

Tensor EdgeRunner::source_values(bool clean) {
  const auto settle = [&](const Tensor& value) { return clean ? value : runner_.make_replacement(value); };
  std::vector<Tensor> values = {settle(runner_.recorded(clean, Site::kEmbed, -1)).unsqueeze(0)};
  for (int64_t layer = 0; layer < model_.config().layers; ++layer) {
    const Tensor parts =
        norm_head_parts(model_, layer, runner_.recorded(clean, Site::kResult, layer), 2);  // [P, T, H, D]
    values.push_back(settle(parts).permute({2, 0, 1, 3}));
    values.push_back(settle(runner_.recorded(clean, Site::kMlpOut, layer)).unsqueeze(0));
  }
  return at::cat(values);  // [sources, P or 1, T, D]
}

void EdgeRunner::load_deltas() {
  if (deltas_.defined()) return;
  const at::NoGradGuard no_grad;
  replacements_ = source_values(false);
  deltas_ = replacements_ - source_values(true);
}

Tensor EdgeRunner::score_edges(int64_t steps) {
  load_deltas();
  const ModelConfig& config = model_.config();
  const int64_t prompts = runner_.reader().prompts(), T = runner_.reader().tokens(), D = config.width;
  const double per_prompt = static_cast<double>(config.layers * (6 * config.heads + 20) * T * D) * 4;
  const int64_t chunk = std::clamp<int64_t>(static_cast<int64_t>(kAttributionBytes / per_prompt), 1, prompts);
  const at::AutoGradMode with_gradients(true);
  const Tensor mask =
      at::zeros({1, graph_.destinations(), graph_.sources()}, deltas_.options()).set_requires_grad(true);
  const Tensor clean = runner_.recorded(true, Site::kEmbed, -1),
               corrupt = runner_.recorded(false, Site::kEmbed, -1);
  for (int64_t first = 0; first < prompts; first += chunk) {
    const int64_t count = std::min(chunk, prompts - first);
    const Task part = slice_task(task_, first, count);
    TaskMetricReader reader(model_, part);
    for (int64_t step = 0; step < steps; ++step) {
      const double share = steps == 1 ? 1.0 : static_cast<double>(step) / static_cast<double>(steps);
      Taps taps;
      taps.replace({Site::kEmbed, -1}, [&](const Tensor&) {
        return (corrupt + share * (clean - corrupt)).narrow(0, first, count);
      });
      ForwardOptions options;
      options.taps = &taps;
      const Tensor ids = runner_.reader().clean_ids().narrow(0, first, count);
      SplitRun run{model_.embed(ids, options).unsqueeze(0),
                   mask,
                   deltas_.narrow(1, first, count).reshape({1, graph_.sources(), -1}),
                   {},
                   1};
      const Tensor loss = -run_split(run, reader).sum() / static_cast<double>(prompts * steps);
      loss.backward();
    }
  }
  const Tensor scores = mask.grad()[0].to(at::kCPU, at::kDouble).contiguous();
  if (runner_.ranks()) runner_.ranks()->broadcast(scores);  // one order for all ranks
  return scores;
}

int64_t EdgeRunner::pass_size() const {
  const double bytes = static_cast<double>(deltas_.numel()) * 4;
  return std::clamp<int64_t>(static_cast<int64_t>(kPassBytes / bytes), 1, 64);
}

std::vector<PromptMetrics> EdgeRunner::run(const std::vector<Tensor>& masks,
                                           const std::function<void(size_t)>& advance) {
  load_deltas();
  const at::NoGradGuard no_grad;
  std::vector<PromptMetrics> results(masks.size());
  const Tensor embedded = model_.embed(runner_.reader().clean_ids());  // [P, T, D]
  const Tensor input = runner_.recorded(true, Site::kEmbed, -1);
  const auto pass = static_cast<size_t>(pass_size());
  for (size_t first = 0; first < masks.size(); first += pass) {
    const size_t count = std::min(masks.size() - first, pass);
    if (is_own(runner_.ranks(), first / pass)) {
      const auto from = masks.begin() + static_cast<std::ptrdiff_t>(first);
      const Tensor mask = at::stack(std::vector<Tensor>(from, from + static_cast<std::ptrdiff_t>(count)));
      const int64_t S = mask.size(0);
      SplitRun run{embedded.unsqueeze(0).expand({S, -1, -1, -1}), mask.to(embedded.options()),
                   at::zeros({S, graph_.sources(), input.numel()}, embedded.options()), replacements_};
      run.write(input.unsqueeze(0).expand({S, -1, -1, -1}).unsqueeze(1));
      const Tensor metrics = run_split(run, runner_.reader());
      for (size_t n = 0; n < count; ++n)
        results[first + n] = to_prompt_metrics(metrics[static_cast<int64_t>(n)]);
    }
    if (advance) advance(count);
  }
  share_rows(runner_.ranks(), results, runner_.reader().prompts());
  return results;
}

}  // namespace openwork
