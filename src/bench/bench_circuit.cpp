// openwork bench circuit: the head sweep of the copy task, one whole forward pass per head against the
// batched way that starts where an ablation changes something; same prompts, same numbers, same run.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "analyze/circuits/ablation.h"
#include "analyze/circuits/circuit.h"
#include "base/median.h"
#include "bench/benches.h"

namespace openwork {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// As people write it: a hook on one head, a forward pass with all logits, the metric read from them.
std::vector<double> sweep_plainly(const Transformer& model, const Task& task, AblationRunner& runner) {
  const at::NoGradGuard no_grad;
  const Tensor ids = runner.reader().clean_ids();
  std::vector<double> effects;
  for (const HeadPlace& head : all_heads(model.config())) {
    const Tensor value = runner.replacement(Site::kZ, head.layer).select(2, head.head);  // [1, T, d]
    Taps taps;
    taps.replace({Site::kZ, head.layer}, [&](const Tensor& z) {
      Tensor changed = z.clone();
      changed.select(2, head.head).copy_(value.expand({z.size(0), -1, -1}));
      return changed;
    });
    ForwardOptions options;
    options.taps = &taps;
    const Tensor logits = model.forward(ids, options).to(at::kFloat);
    double metric = 0;
    for (size_t p = 0; p < task.prompts.size(); ++p) {
      const std::vector<TaskRead>& reads = task.prompts[p].reads;
      std::vector<int64_t> rows, answers, wrongs;
      for (const TaskRead& read : reads)
        rows.push_back(read.position), answers.push_back(read.answers[0]), wrongs.push_back(read.wrongs[0]);
      const auto pick = [&](const std::vector<int64_t>& tokens) {
        return logits[static_cast<int64_t>(p)].index(
            {at::tensor(rows).to(logits.device()), at::tensor(tokens).to(logits.device())});
      };
      metric += (pick(answers) - pick(wrongs)).mean().item<double>();
    }
    effects.push_back(mean_of(runner.clean()) - metric / static_cast<double>(task.prompts.size()));
  }
  return effects;
}

std::vector<double> sweep_batched(const Transformer& model, const Task& task) {
  AblationRunner runner(model, task, AblationKind::kMean);  // its two recording runs are part of the work
  std::vector<Intervention> interventions;
  for (const HeadPlace& head : all_heads(model.config())) interventions.push_back({head_part(head)});
  std::vector<double> effects;
  for (const PromptMetrics& metrics : runner.run(interventions))
    effects.push_back(mean_of(runner.clean()) - mean_of(metrics));
  return effects;
}

template <typename Work>
double seconds_for(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

nlohmann::json bench_dtype(const BenchSettings& options, const std::string& dtype) {
  const Transformer model = options.open_model(dtype == "bf16" ? at::kBFloat16 : at::kFloat);
  const Task task = options.open_task("copy", model);
  AblationRunner runner(model, task, AblationKind::kMean);
  std::vector<double> plain_effects, effects;
  runner.replacement(Site::kZ, 0);
  // The two ways take turns, so that other load on the machine meets both.
  std::vector<double> plain, batched, ratios;
  for (int n = 0; n < options.repeats; ++n) {
    plain.push_back(seconds_for([&] { plain_effects = sweep_plainly(model, task, runner); }));
    batched.push_back(seconds_for([&] { effects = sweep_batched(model, task); }));
    ratios.push_back(plain.back() / batched.back());
  }
  double difference = 0;
  for (size_t n = 0; n < effects.size(); ++n)
    difference = std::max(difference, std::abs(effects[n] - plain_effects[n]));
  options.say(
      fmt::format("{:<6} {:>6} heads  {:>3} x {:<4} plain {:>8.3f} s  batched "
                  "{:>8.3f} s  ratio {:>5.2f}  largest difference {:.1e}",
                  dtype, effects.size(), task.prompts.size(), task.length(), median(plain), median(batched),
                  median(ratios), difference));
  return {{"dtype", dtype},
          {"device", model.device().str()},
          {"heads", effects.size()},
          {"prompts", task.prompts.size()},
          {"tokens", task.length()},
          {"plain_s", median(plain)},
          {"batched_s", median(batched)},
          {"ratio", median(ratios)},
          {"largest_difference", difference}};
}

}  // namespace

nlohmann::json bench_circuit(const BenchSettings& options) {
  nlohmann::json rows = nlohmann::json::array();
  for (const char* dtype : {"fp32", "bf16"}) rows.push_back(bench_dtype(options, dtype));
  return {{"rows", rows},
          {"protocol",
           {{"model", options.describe_model()},
            {"task", "copy"},
            {"ablation", "mean"},
            {"repeats", options.repeats}}}};
}

}  // namespace openwork
