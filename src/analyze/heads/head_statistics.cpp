#include "analyze/heads/head_statistics.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "analyze/heads/head_classes.h"
#include "analyze/heads/pattern_numbers.h"
#include "analyze/heads/value_norms.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/prompt_interval.h"
#include "model/kept_heads.h"

namespace openwork {
namespace {

Tensor to_host(const Tensor& x) {
  return x.to(at::kCPU, at::kFloat).contiguous();
}

using Measure = std::function<void(int64_t head, const HeadPattern& pattern)>;

// Lays taps into every layer that call `measure` for each head as soon as its pattern is there. What a layer
// needs until then (its values, its gates) is held in `held` and dropped with the pattern.
struct HeldLayer {
  Tensor norms;  // [H, T]
  Tensor gate;   // [H, T, T]
};
void tap_patterns(const Transformer& model, bool with_values, HeldLayer& held, const Measure& measure,
                  Taps& taps) {
  const ModelConfig& config = model.config();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (with_values) {
      taps.read({Site::kValue, layer},
                [&, layer](const Tensor& v) { held.norms = to_host(value_norms(model, layer, v)[0]); });
    }
    if (config.gate != GateKind::kNone) {
      taps.read({Site::kGate, layer}, [&](const Tensor& z) { held.gate = to_host(z[0]); });
    }
    taps.read({Site::kPattern, layer}, [&, layer](const Tensor& pattern) {
      const Tensor A = to_host(pattern[0]);  // [H, T, T]
      const int64_t T = A.size(-1);
      if (!held.gate.defined() && !config.kept_heads.empty())  // a removed head keeps nothing
        held.gate = mark_heads(config, layer, at::kCPU).view({-1, 1, 1}).expand_as(A).contiguous();
      parallel_for(static_cast<size_t>(A.size(0)), [&](size_t n) {
        const auto head = static_cast<int64_t>(n);
        measure(layer * config.heads + head,
                {A.data_ptr<float>() + head * T * T, T,
                 held.gate.defined() ? held.gate.data_ptr<float>() + head * T * T : nullptr,
                 held.norms.defined() ? held.norms.data_ptr<float>() + head * T : nullptr});
      });
      held = {};
    });
  }
}

// Runs the layers alone: statistics need no logits.
void run_pass(const Transformer& model, const std::vector<int64_t>& ids, const Taps& taps) {
  ForwardOptions options;
  options.taps = &taps;
  const Tensor batch = at::tensor(ids, at::kLong).unsqueeze(0).to(model.device());
  model.run_layers(model.embed(batch, options), 0, model.config().layers, options);
}

using PromptNumbers = std::vector<std::vector<HeadNumbers>>;  // [prompt][head]

PromptNumbers measure_repeats(const Transformer& model, const StatisticsOptions& options,
                              ModelStatistics& result) {
  const auto before = static_cast<int64_t>(options.beginning.size());
  const int64_t length = std::min(options.repeat_length, (model.config().context - before) / 2);
  PromptNumbers numbers;
  if (length < 2) return numbers;
  result.repeat_length = length;
  result.repeat_prompts = options.repeat_prompts;
  for (int64_t n = 0; n < options.repeat_prompts; ++n) {
    std::vector<HeadNumbers>& heads = numbers.emplace_back(static_cast<size_t>(result.layers * result.heads));
    HeldLayer held;
    Taps taps;
    const Measure measure = [&](int64_t head, const HeadPattern& pattern) {
      measure_repeat(pattern, before, length, heads[static_cast<size_t>(head)]);
    };
    tap_patterns(model, false, held, measure, taps);
    run_pass(model, make_repeated_prompt(options, model.config().vocabulary, length, n), taps);
  }
  return numbers;
}

// Means and intervals of one set of prompts, of the statistics that they define.
void summarise(const PromptNumbers& numbers, uint64_t seed, std::vector<HeadRecord>& records) {
  if (numbers.empty()) return;
  const PromptResampler resampler(numbers.size(), seed);
  parallel_for(records.size(), [&](size_t head) {
    std::vector<double> values(numbers.size());
    for (size_t s = 0; s < kStatisticCount; ++s) {
      for (size_t n = 0; n < numbers.size(); ++n) values[n] = numbers[n][head].values[s];
      const MeanInterval summary = resampler.summarise(values);
      if (std::isnan(summary.mean)) continue;
      records[head].mean.values[s] = summary.mean;
      records[head].low.values[s] = summary.low;
      records[head].high.values[s] = summary.high;
    }
  });
}

std::vector<bool> find_blank(const std::vector<HeadNumbers>& heads) {
  std::vector<bool> blank;
  for (const HeadNumbers& numbers : heads) blank.push_back(is_blank(numbers));
  return blank;
}

void check_prompts(const std::vector<std::vector<int64_t>>& prompts) {
  if (prompts.empty()) fail_input("no prompts", "statistics", "give at least one prompt");
  for (const auto& ids : prompts) {
    if (ids.size() < 2) {
      fail_input(fmt::format("a prompt of {} token", ids.size()), "statistics",
                 "give at least two tokens: rows are counted from the second on");
    }
  }
}

ModelStatistics describe(const Transformer& model, const std::vector<std::vector<int64_t>>& prompts) {
  ModelStatistics result;
  result.layers = model.config().layers;
  result.heads = model.config().heads;
  result.gated = model.config().gate != GateKind::kNone;
  for (int64_t layer = 0; layer < result.layers; ++layer) {
    for (int64_t head = 0; head < result.heads; ++head)
      result.records.push_back({{layer, head}, {}, {}, {}, HeadClass::kMixed, false});
  }
  for (const auto& ids : prompts) {
    result.prompt_tokens.push_back(static_cast<int64_t>(ids.size()));
    result.uniform_local += uniform_local_mass(static_cast<int64_t>(ids.size()));
  }
  result.uniform_local /= static_cast<double>(prompts.size());  // once: of short prompts it is 1, and no less
  return result;
}

}  // namespace

std::vector<int64_t> make_repeated_prompt(const StatisticsOptions& options, int64_t vocabulary,
                                          int64_t length, int64_t index) {
  std::vector<int64_t> pool = options.random_from;
  if (pool.empty()) {
    pool.resize(static_cast<size_t>(vocabulary));
    std::iota(pool.begin(), pool.end(), int64_t{0});
  }
  const bool distinct = pool.size() >= static_cast<size_t>(length);
  std::vector<int64_t> tokens;
  for (size_t n = 0; n < static_cast<size_t>(length); ++n) {
    const size_t from = distinct ? n : 0;
    const uint64_t word = philox(mix_seed(options.seed, static_cast<uint64_t>(index)), n).word[0];
    const size_t pick = from + static_cast<size_t>((word * (pool.size() - from)) >> 32);
    tokens.push_back(pool[pick]);
    if (distinct) std::swap(pool[n], pool[pick]);
  }
  std::vector<int64_t> prompt = options.beginning;
  prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  return prompt;
}

ModelStatistics measure_heads(const Transformer& model, const std::vector<std::vector<int64_t>>& prompts,
                              const StatisticsOptions& options, const std::function<void()>& advance) {
  const at::NoGradGuard no_grad;
  check_prompts(prompts);
  ModelStatistics result = describe(model, prompts);
  PatternCorrelation correlation(result.layers * result.heads);
  InteractionMeter interactions(model);
  for (const auto& ids : prompts) {
    std::vector<HeadNumbers>& heads = result.by_prompt.emplace_back(result.records.size());
    correlation.begin_prompt(static_cast<int64_t>(ids.size()));
    HeldLayer held;
    Taps taps;
    const Measure measure = [&](int64_t head, const HeadPattern& pattern) {
      heads[static_cast<size_t>(head)] = measure_pattern(pattern);
      correlation.add_head(head, pattern.values);
    };
    tap_patterns(model, true, held, measure, taps);
    if (options.interactions) interactions.add_taps(taps);
    run_pass(model, ids, taps);
    correlation.end_prompt();
    if (options.interactions) interactions.end_prompt(find_blank(heads));
    if (advance) advance();
  }
  summarise(result.by_prompt, options.seed, result.records);
  summarise(measure_repeats(model, options, result), options.seed, result.records);
  std::vector<bool> blank;
  for (HeadRecord& record : result.records) {
    record.kind = classify_head(record.mean, result.uniform_local);
    record.diagonal_dominant = is_diagonal_dominant(record.mean);
    blank.push_back(record.kind == HeadClass::kBlank);
  }
  result.redundancy = group_heads(correlation.correlations(), blank, options.redundancy_level);
  if (options.interactions) result.interactions = interactions.finish(options.interaction_level);
  return result;
}

std::vector<int64_t> ordinary_tokens(const Tokenizer& tokenizer, int64_t vocabulary) {
  std::vector<int64_t> ids;
  for (int32_t id = 0; id < std::min<int64_t>(tokenizer.size(), vocabulary); ++id) {
    if (!tokenizer.is_special(id) && !tokenizer.piece(id).empty()) ids.push_back(id);
  }
  return ids;
}

}  // namespace openwork
