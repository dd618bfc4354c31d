#include "analyze/heads/patterns.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analyze/heads/value_norms.h"
#include "base/parallel.h"

namespace openwork {
namespace {

constexpr double kBlankMass = 0.01;
constexpr double kPatternBytes =
    256e6;  // of one layer's patterns made at a time; the pass needs a few times that

// How many prompts go through a layer together.
int64_t choose_batch(const ModelConfig& config, int64_t tokens) {
  const double each =
      4.0 * static_cast<double>(config.heads) * static_cast<double>(tokens) * static_cast<double>(tokens);
  return std::max<int64_t>(1, static_cast<int64_t>(kPatternBytes / each));
}

// Runs every batch through one layer; the sum of its patterns [H, T, T].
Tensor run_layer_summing(const Transformer& model, int64_t layer, PatternWeights weights,
                         std::vector<Tensor>& streams) {
  Tensor sum;
  for (Tensor& stream : streams) {
    Taps taps;
    Tensor norms;  // [B, H, T], of the keys; undefined: entries are attention
    if (weights == PatternWeights::kValue)
      taps.read({Site::kValue, layer}, [&](const Tensor& v) { norms = value_norms(model, layer, v); });
    taps.read({Site::kPattern, layer}, [&](const Tensor& pattern) {  // [B, H, T, T]
      const Tensor entries = pattern.to(at::kFloat);
      const Tensor part = (norms.defined() ? entries * norms.unsqueeze(2) : entries).sum(0);
      sum = sum.defined() ? sum + part : part;
    });
    ForwardOptions options;
    options.taps = &taps;
    stream = model.run_layers(stream, layer, layer + 1, options);
  }
  return sum;
}

void keep_strongest(std::vector<PatternCell>& kept, size_t most, const PatternCell& cell) {
  const auto stronger = [](const PatternCell& a, const PatternCell& b) { return a.value > b.value; };
  if (most == 0 || !(cell.value > 0) || (kept.size() == most && !stronger(cell, kept.back()))) return;
  if (kept.size() == most) kept.pop_back();
  kept.insert(std::upper_bound(kept.begin(), kept.end(), cell, stronger), cell);
}

}  // namespace

void visit_patterns(const Transformer& model, const Tensor& ids,
                    const std::function<void(const PatternView&)>& visit, PatternWeights weights) {
  const at::NoGradGuard no_grad;
  const int64_t prompts = ids.size(0), tokens = ids.size(1), heads = model.config().heads;
  std::vector<Tensor> streams;
  for (const Tensor& batch : ids.split(choose_batch(model.config(), tokens)))
    streams.push_back(model.embed(batch));
  for (int64_t layer = 0; layer < model.config().layers; ++layer) {
    const Tensor mean = run_layer_summing(model, layer, weights, streams)
                            .div(static_cast<double>(prompts))
                            .to(at::kCPU)
                            .contiguous();
    const float* data = mean.const_data_ptr<float>();
    parallel_for(static_cast<size_t>(heads), [&](size_t head) {
      const auto size = static_cast<size_t>(tokens * tokens);
      visit({{layer, static_cast<int64_t>(head)}, tokens, std::span(data + head * size, size)});
    });
  }
}

bool PatternSummary::blank() const {
  return mass < kBlankMass;
}

PatternSummary summarise_pattern(const PatternView& pattern, size_t strongest) {
  PatternSummary summary;
  const int64_t first = pattern.tokens > 1 ? 1 : 0;
  for (int64_t query = first; query < pattern.tokens; ++query) {
    double sum = 0, largest = 0;
    for (int64_t key = 0; key <= query; ++key) {
      const double value = pattern.at(query, key);
      sum += value;
      if (key >= first) largest = std::max(largest, value);
      if (key >= 1 && key < query) keep_strongest(summary.strongest, strongest, {query, key, value});
    }
    summary.mass += sum;
    summary.peak += largest;
  }
  const double rows = static_cast<double>(std::max<int64_t>(pattern.tokens - first, 1));
  summary.mass /= rows;
  summary.peak /= rows;
  return summary;
}

std::vector<float> causal_values(const PatternView& pattern) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(pattern.tokens * (pattern.tokens + 1) / 2));
  for (int64_t query = 0; query < pattern.tokens; ++query) {
    const auto row = pattern.values.begin() + query * pattern.tokens;
    values.insert(values.end(), row, row + query + 1);
  }
  return values;
}

}  // namespace openwork
