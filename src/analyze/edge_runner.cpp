#include "analyze/edge_runner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analyze/head_rows.h"
#include "base/error.h"
#include "model/rotary.h"

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
  if (config.norm_placement == NormPlacement::kAfter) {
    fail_input("graph edges need norms before the blocks, and this model has them after", config.architecture,
               "use --level head or attention-edge");
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (const HeadInput input : {HeadInput::kQuery, HeadInput::kKey, HeadInput::kValue})
      projections_.push_back(projection(layer, input));
  }
}

EdgeRunner::Projection EdgeRunner::projection(int64_t layer, HeadInput input) const {
  const ModelConfig& config = model_.config();
  const int64_t copies = input == HeadInput::kQuery ? 1 : config.group_size();
  Tensor weight = head_rows(model_.layer(layer), config, input, false).transpose(1, 2);
  Projection result{copies == 1 ? weight : weight.repeat_interleave(copies, 0), {}};
  if (config.qkv_bias) {
    const Tensor bias = head_rows(model_.layer(layer), config, input, true).unsqueeze(1);
    result.bias = copies == 1 ? bias : bias.repeat_interleave(copies, 0);
  }
  return result;
}

Tensor EdgeRunner::project(int64_t layer, HeadInput input, const Tensor& x) const {
  const ModelConfig& config = model_.config();
  const Projection& projection = projections_[static_cast<size_t>(layer * 3 + static_cast<int64_t>(input))];
  const int64_t S = x.size(0), H = x.size(1), P = x.size(2), T = x.size(3), d = config.head_size;
  const Tensor normal = model_.apply_norm(model_.layer(layer).norm1, x);
  Tensor y = at::matmul(normal.view({S, H, P * T, -1}), projection.weight);  // [S, H, P T, d]
  if (projection.bias.defined()) y = y + projection.bias;
  if (config.clip_qkv) y = y.clamp(-*config.clip_qkv, *config.clip_qkv);
  y = y.view({S, H, P, T, d}).permute({0, 2, 3, 1, 4}).reshape({S * P, T, H, d});
  if (config.positions == Positions::kRotary && input != HeadInput::kValue) {
    y = rotate(y, make_rotary_table(config.rope, 0, T, y.options()));
  }
  return y.transpose(1, 2);
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
  run.write(parts);
  const Tensor sum = parts.sum(1);
  return output.bias.defined() ? sum + output.bias : sum;
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

Tensor EdgeRunner::source_values(bool clean, int64_t first, int64_t count) {
  std::vector<Tensor> values;
  const auto add = [&](Site site, int64_t layer) {
    Tensor value = clean ? runner_.recorded(true, site, layer) : runner_.replacement(site, layer);
    if (!value.defined())
      value = at::zeros_like(runner_.recorded(true, site, layer).narrow(0, 0, 1));  // zero ablation
    const int64_t prompts = value.size(0) == 1 ? 1 : count;
    value = value.narrow(0, value.size(0) == 1 ? 0 : first, prompts);
    values.push_back(site == Site::kResult ? value.permute({2, 0, 1, 3}) : value.unsqueeze(0));
  };
  add(Site::kEmbed, -1);
  for (int64_t layer = 0; layer < model_.config().layers; ++layer)
    add(Site::kResult, layer), add(Site::kMlpOut, layer);
  return at::cat(values);  // [sources, count or 1, T, D]
}

void EdgeRunner::load_deltas() {
  if (deltas_.defined()) return;
  const at::NoGradGuard no_grad;
  replacements_ = source_values(false, 0, runner_.reader().prompts());
  deltas_ = replacements_ - source_values(true, 0, runner_.reader().prompts());
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
  return mask.grad()[0].to(at::kCPU, at::kDouble);
}

int64_t EdgeRunner::pass_size() const {
  const double bytes = static_cast<double>(deltas_.numel()) * 4;
  return std::clamp<int64_t>(static_cast<int64_t>(kPassBytes / bytes), 1, 64);
}

std::vector<PromptMetrics> EdgeRunner::run(const std::vector<Tensor>& masks) {
  load_deltas();
  const at::NoGradGuard no_grad;
  std::vector<PromptMetrics> results;
  const Tensor embedded = model_.embed(runner_.reader().clean_ids());  // [P, T, D]
  const Tensor input = runner_.recorded(true, Site::kEmbed, -1);
  for (size_t first = 0; first < masks.size(); first += static_cast<size_t>(pass_size())) {
    const size_t last = std::min(masks.size(), first + static_cast<size_t>(pass_size()));
    const Tensor mask = at::stack(std::vector<Tensor>(masks.begin() + static_cast<std::ptrdiff_t>(first),
                                                      masks.begin() + static_cast<std::ptrdiff_t>(last)));
    const int64_t S = mask.size(0);
    SplitRun run{embedded.unsqueeze(0).expand({S, -1, -1, -1}), mask.to(embedded.options()),
                 at::zeros({S, graph_.sources(), input.numel()}, embedded.options()), replacements_};
    run.write(input.unsqueeze(0).expand({S, -1, -1, -1}).unsqueeze(1));
    const Tensor metrics = run_split(run, runner_.reader());
    for (int64_t n = 0; n < S; ++n) results.push_back(to_prompt_metrics(metrics[n]));
  }
  return results;
}

}  // namespace openwork
