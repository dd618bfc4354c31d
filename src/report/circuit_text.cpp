#include "report/circuit_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/interval_text.h"
#include "base/number_text.h"
#include "report/times_fewer.h"

namespace openwork {
namespace {

std::vector<std::string> list_names(const std::vector<HeadPlace>& heads) {
  std::vector<std::string> names;
  for (const HeadPlace& head : heads) names.push_back(head.name());
  return names;
}

// "50 % 5, 80 % 12, 90 % 23, 95 % 40" of one text for each level.
template <typename Text>
std::string tell_levels(const Text& text_at) {
  std::vector<std::string> texts;
  for (size_t n = 0; n < kLevels.size(); ++n)
    texts.push_back(fmt::format("{:g} % {}", 100 * kLevels[n], text_at(n)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string ratio_text(double ratio, const Interval& interval) {
  return fmt::format("{:.2f} {}", ratio, interval_text(interval, 2));
}
std::string ratio_text(const SeedRatio& ratio) {
  return ratio.interval ? ratio_text(ratio.ratio, *ratio.interval) : fmt::format("{:.2f}", ratio.ratio);
}

std::string format_sizes(const ModelCircuits& model) {
  const CircuitCurve& curve = model.shown().curve;
  return fmt::format("{}: {}; area {:.4f} {}, mean size {:.1f} {}", model.name,
                     tell_levels([&](size_t n) { return curve.at[n].count; }), curve.area,
                     interval_text(curve.area_interval, 4), curve.mean_size,
                     interval_text(curve.mean_size_interval, 1));
}

void add_greedy(std::vector<std::string>& lines, const ModelCircuits& model) {
  const Circuit& circuit = model.shown();
  lines.push_back(fmt::format("{}: {} after dropping what it can spare (faithfulness {:.4f}): {}", model.name,
                              count_of(circuit.greedy->heads.size(), "head"), circuit.greedy->faithfulness,
                              fmt::join(list_names(circuit.greedy->heads), " ")));
  lines.push_back(fmt::format("{}: so dropped, {}", model.name,
                              tell_levels([&](size_t n) { return circuit.greedy_at[n]; })));
}

}  // namespace

std::string format_circuit_header() {
  return fmt::format("{:<24} {:>7} {:>10} {:>9} {:>9} {:>16} {:>12} {:>11}", "model", "heads", "edges", "of",
                     "clean", "95 % of size", "faithfulness", "rest alone");
}

std::string format_circuit_row(const ModelCircuits& model) {
  const Circuit& circuit = model.shown();
  const std::string edges = circuit.edges_at_threshold ? fmt::format("{}", *circuit.edges_at_threshold) : "-";
  return fmt::format("{:<24} {:>7} {:>10} {:>9} {:>9.4f} {:>16} {:>12.4f} {:>11.4f}", model.name,
                     circuit.heads_at_threshold, edges, circuit.candidates, mean_of(circuit.curve.all),
                     interval_text(circuit.curve.threshold_interval, 0), circuit.faithfulness_at_threshold(),
                     circuit.rest_alone);
}

std::vector<std::string> format_circuit(const ModelCircuits& model, const CircuitSettings& settings) {
  const Circuit& circuit = model.shown();
  std::vector<std::string> lines = {format_sizes(model)};
  if (circuit.greedy) add_greedy(lines, model);
  if (circuit.agreement) {
    lines.push_back(
        fmt::format("{}: {} against exact on the {} best parts: correlation {:.3f}, largest error {:.4f}",
                    model.name, method_name(settings.method), circuit.agreement->parts,
                    circuit.agreement->correlation, circuit.agreement->largest_error));
  }
  if (model.named) {
    lines.push_back(fmt::format("{}: {}: faithfulness {:.4f}, rest alone {:.4f}", model.name,
                                fmt::join(list_names(model.named_heads), ","), model.named->faithfulness,
                                model.named->rest_alone));
  }
  std::string line;
  for (size_t n = 0; n < circuit.roles.size(); ++n)
    line += fmt::format("{}{} ({})", n ? ", " : "", circuit.roles[n].head.name(), circuit.roles[n].role);
  lines.push_back(fmt::format("{}: {}", model.name, line));
  return lines;
}

std::vector<std::string> format_circuit_ratio(const ModelRatio& ratio, const CircuitSettings& settings,
                                              size_t seeds) {
  std::vector<std::string> lines;
  const CurveComparison& sizes = ratio.sizes;
  const TimesFewer said = say_times_fewer(sizes.at_threshold.ratio, sizes.at_threshold.interval);
  lines.push_back(fmt::format("{} needs {:.2f} times {} {} {} at {:g} % faithfulness, 95 % {}, {}",
                              ratio.sparse, said.times, said.fewer, said.than, ratio.dense,
                              100 * settings.threshold, interval_text(said.interval, 2),
                              count_of(seeds, "seed")));
  lines.push_back(
      fmt::format("  sizes, {} over {}: {}; mean size {}", ratio.dense, ratio.sparse,
                  tell_levels([&](size_t n) { return ratio_text(sizes.at[n].ratio, sizes.at[n].interval); }),
                  ratio_text(sizes.mean_size.ratio, sizes.mean_size.interval)));
  if (!ratio.greedy) return lines;
  lines.push_back(fmt::format("  the same, spare heads dropped: {}; {}", ratio_text(*ratio.greedy),
                              tell_levels([&](size_t n) { return ratio_text(ratio.greedy_at[n]); })));
  return lines;
}

}  // namespace openwork
