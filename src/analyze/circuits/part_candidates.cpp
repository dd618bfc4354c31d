// Circuits whose parts are heads or attention edges: both are ablations.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyze/circuits/attribution.h"
#include "analyze/circuits/circuit_parts.h"
#include "base/error.h"
#include "base/progress.h"

namespace openwork {
namespace {

std::vector<PromptMetrics> run_named(AblationRunner& runner, const std::string& what,
                                     const std::vector<std::string>& names,
                                     const std::vector<Intervention>& interventions, Sweep& sweep) {
  Progress progress(sweep.scope + what, interventions.size());
  return run_sweep(runner, names, interventions, sweep, [&](size_t count) { progress.advance(count); });
}

// Edges [H, T, T] of a layer, as parts behind those already listed.
void add_edges(const Tensor& edges, int64_t layer, std::vector<Part>& parts) {
  const Tensor places = edges.nonzero().contiguous();  // [n, 3]: head, query, key
  const int64_t* row = places.data_ptr<int64_t>();
  for (int64_t n = 0; n < places.size(0); ++n, row += 3) {
    parts.push_back({Part::Kind::kEdge, static_cast<int32_t>(layer), static_cast<int32_t>(row[0]),
                     static_cast<int32_t>(row[1]), static_cast<int32_t>(row[2])});
  }
}

std::vector<Part> list_candidates(AblationRunner& runner, CircuitLevel level) {
  if (level == CircuitLevel::kHead) return list_parts(runner.config(), Part::Kind::kHead);
  std::vector<Part> parts;
  for (int64_t layer = 0; layer < runner.config().layers; ++layer)
    add_edges(runner.open_edges(layer), layer, parts);
  return parts;
}

// Edges whose gates no prompt opens. An ablated run may open them, as its streams are others than those of
// any prompt; they are no part of any circuit, so they are held closed with everything else that is not kept.
std::vector<Part> list_closed(AblationRunner& runner, CircuitLevel level) {
  std::vector<Part> parts;
  if (level == CircuitLevel::kHead || runner.config().gate == GateKind::kNone) return parts;
  const int64_t T = runner.tokens();
  const Tensor causal = at::ones({runner.config().heads, T, T}, at::kBool).tril();
  for (int64_t layer = 0; layer < runner.config().layers; ++layer) {
    add_edges(causal.logical_and(runner.open_edges(layer).logical_not()), layer, parts);
  }
  return parts;
}

class PartCandidates : public CircuitCandidates {
 public:
  PartCandidates(const Transformer& model, AblationRunner& runner, const CircuitSettings& settings,
                 Sweep& sweep)
      : model_(model),
        runner_(runner),
        settings_(settings),
        sweep_(sweep),
        parts_(list_candidates(runner, settings.level)) {
    if (parts_.empty())
      fail_input("no gate is open on these prompts", "circuit", "use --level head, or another model");
  }

  size_t count() const override { return parts_.size(); }

  std::vector<double> score() override {
    if (settings_.method == CircuitMethod::kExact) return measure_parts(parts_);
    return settings_.level == CircuitLevel::kHead ? estimate_heads() : estimate_edges();
  }

  std::vector<double> measure(const std::vector<size_t>& which) override {
    return measure_parts(pick(which));
  }

  std::vector<PromptMetrics> keep(const OrderedCurve& ordered, const std::vector<int64_t>& counts) override {
    if (!closed_) closed_ = list_closed(runner_, settings_.level);
    // Lists of edges are long: a few interventions at a time.
    const size_t round = settings_.level == CircuitLevel::kHead ? std::max<size_t>(1, counts.size()) : 4;
    std::vector<PromptMetrics> metrics;
    for (size_t first = 0; first < counts.size(); first += round) {
      std::vector<std::string> names;
      std::vector<Intervention> interventions;
      for (size_t n = first; n < std::min(counts.size(), first + round); ++n) {
        names.push_back(fmt::format("first {}{}", counts[n], ordered.by_size ? " by size" : ""));
        Intervention others = *closed_;
        for (auto index = ordered.order.begin() + counts[n]; index != ordered.order.end(); ++index)
          others.push_back(parts_[*index]);
        interventions.push_back(std::move(others));
      }
      for (PromptMetrics& row : run_named(runner_, "curve", names, interventions, sweep_))
        metrics.push_back(std::move(row));
    }
    return metrics;
  }

  PromptMetrics run_without(const std::vector<size_t>& which) override {
    return runner_.run({pick(which)}).front();
  }

  std::vector<HeadPlace> heads_of(const std::vector<size_t>& which) const override {
    std::vector<HeadPlace> heads;
    std::set<HeadPlace> seen;
    for (const size_t n : which) {
      if (seen.insert(parts_[n].place()).second) heads.push_back(parts_[n].place());
    }
    return heads;
  }

  void list(const std::vector<size_t>& which, const std::vector<double>& scores,
            Circuit& circuit) const override {
    circuit.order = pick(which);
    for (const size_t n : which) circuit.scores.push_back(scores[n]);
  }

 private:
  std::vector<Part> pick(const std::vector<size_t>& which) const {
    std::vector<Part> parts;
    for (const size_t n : which) parts.push_back(parts_[n]);
    return parts;
  }

  std::vector<double> measure_parts(const std::vector<Part>& parts) {
    std::vector<std::string> names;
    std::vector<Intervention> interventions;
    for (const Part& part : parts) names.push_back(to_string(part)), interventions.push_back({part});
    std::vector<double> effects;
    for (const PromptMetrics& metrics : run_named(runner_, "effects", names, interventions, sweep_))
      effects.push_back(mean_of(runner_.clean()) - mean_of(metrics));
    return effects;
  }

  std::vector<double> estimate_heads() {
    const Tensor by_head =
        attribute_heads(model_, runner_, settings_.ablation, steps_of(settings_.method));  // [L, H]
    std::vector<double> scores;
    for (const Part& part : parts_) scores.push_back(by_head[part.layer][part.head].item<double>());
    return scores;
  }

  std::vector<double> estimate_edges() {
    const std::vector<Tensor> by_edge =
        attribute_attention_edges(model_, runner_, settings_.ablation, steps_of(settings_.method));
    const int64_t T = runner_.tokens();
    std::vector<double> scores;
    for (const Part& part : parts_) {
      const Tensor& layer = by_edge[static_cast<size_t>(part.layer)];  // [H, T, T]
      scores.push_back(layer.data_ptr<double>()[(part.head * T + part.query) * T + part.key]);
    }
    return scores;
  }

  const Transformer& model_;
  AblationRunner& runner_;
  const CircuitSettings& settings_;
  Sweep& sweep_;
  std::vector<Part> parts_;
  std::optional<std::vector<Part>> closed_;  // what is ablated besides, listed when first needed
};

// All heads but these.
Intervention ablate_all_but(const ModelConfig& config, const std::vector<HeadPlace>& heads) {
  Intervention others;
  for (const HeadPlace& head : all_heads(config)) {
    if (std::find(heads.begin(), heads.end(), head) == heads.end()) others.push_back(head_part(head));
  }
  return others;
}

}  // namespace

std::unique_ptr<CircuitCandidates> make_part_candidates(const Transformer& model, AblationRunner& runner,
                                                        const CircuitSettings& settings, Sweep& sweep) {
  return std::make_unique<PartCandidates>(model, runner, settings, sweep);
}

SpareCircuit drop_spare_heads(AblationRunner& runner, std::vector<HeadPlace> heads, const CircuitCurve& curve,
                              double level) {
  const auto faithfulness = [&](const PromptMetrics& metrics) {
    return faithfulness_of(metrics, curve.none, curve.all);
  };
  SpareCircuit circuit{std::move(heads), 0};
  std::vector<HeadPlace>& kept = circuit.heads;
  circuit.faithfulness = faithfulness(runner.run({ablate_all_but(runner.config(), kept)}).front());
  while (!kept.empty()) {
    std::vector<Intervention> trials;
    for (size_t n = 0; n < kept.size(); ++n) {
      std::vector<HeadPlace> without = kept;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(n));
      trials.push_back(ablate_all_but(runner.config(), without));
    }
    const std::vector<PromptMetrics> metrics = runner.run(trials);
    const auto best = std::max_element(metrics.begin(), metrics.end(),
                                       [](const auto& a, const auto& b) { return mean_of(a) < mean_of(b); });
    const double left = faithfulness(*best);
    if (left < level) break;
    circuit.faithfulness = left;
    kept.erase(kept.begin() + (best - metrics.begin()));
  }
  return circuit;
}

NamedCircuit evaluate_heads(AblationRunner& runner, const std::vector<HeadPlace>& heads, uint64_t seed) {
  Intervention these;
  for (const HeadPlace& head : heads) these.push_back(head_part(head));
  const std::vector<PromptMetrics> metrics = runner.run(
      {ablate_all_but(runner.config(), heads), these, list_parts(runner.config(), Part::Kind::kHead)});
  const PromptMetrics& none = metrics[2];
  NamedCircuit result;
  result.faithfulness = faithfulness_of(metrics[0], none, runner.clean());
  result.interval = faithfulness_interval(metrics[0], none, runner.clean(), seed);
  result.rest_alone = faithfulness_of(metrics[1], none, runner.clean());
  result.rest_interval = faithfulness_interval(metrics[1], none, runner.clean(), seed);
  return result;
}

}  // namespace openwork
