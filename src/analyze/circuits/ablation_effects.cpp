#include "analyze/circuits/ablation_effects.h"

#include "base/progress.h"

namespace openwork {

AblationRecord measure_effects(const Transformer& model, const Task& task, const AblationSettings& settings,
                               Sweep& sweep) {
  AblationRunner runner(model, task, settings.ablation, sweep.ranks());
  const std::vector<Part> parts =
      settings.only.empty() ? list_parts(model.config(), settings.of) : settings.only;
  std::vector<std::string> names;
  std::vector<Intervention> interventions;
  for (const Part& part : parts) names.push_back(to_string(part)), interventions.push_back({part});
  Progress progress("ablate", parts.size(), " parts");
  const std::vector<PromptMetrics> metrics =
      run_sweep(runner, names, interventions, sweep, [&](size_t count) { progress.advance(count); });
  AblationRecord record{
      settings, model.config().layers, mean_of(runner.clean()), mean_of(runner.corrupt()), {}};
  const std::vector<double> ones(runner.clean().size(), 1.0);
  for (size_t n = 0; n < parts.size(); ++n) {
    std::vector<double> differences;
    for (size_t p = 0; p < ones.size(); ++p) differences.push_back(runner.clean()[p] - metrics[n][p]);
    record.effects.push_back(
        {parts[n], mean_of(differences), bootstrap_ratio(differences, ones, settings.seed)});
  }
  return record;
}

}  // namespace openwork
