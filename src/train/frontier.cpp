#include "train/frontier.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/progress.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr double kStep = 0.03;  // nats from the control to the first point

LoopOptions loop_of_point(const LoopOptions& loop, const RunOptions& options, int64_t point, double wanted) {
  LoopOptions result = loop;
  const int64_t points = options.frontier;
  result.name = fmt::format("point {} of {}", point, points);
  result.folder = options.out / fmt::format("point-{}", point);
  result.steps = loop.steps / points;
  result.minutes = loop.minutes / static_cast<double>(points);
  result.held_out_target->wanted = wanted;
  result.held_out_target->margin = kStep;
  if (point > 1) {  // the ways that gates go end with the first point
    result.schedule.bias_shift = result.schedule.idle_shift = 0;
    result.schedule.sharpness = result.schedule.sharpness_end;
  }
  return result;
}

StartingPoint start_of_point(const RunOptions& options, const Transformer& base, int64_t point) {
  StartingPoint start;
  if (point == 1) {
    start = put_gates(base, options.gate, options.gate_bias, options.gate_idle);
  } else {
    const Transformer before = open_saved(options, options.out / fmt::format("point-{}", point - 1));
    start = put_gates(before, options.gate, std::nullopt);
  }
  if (options.compact) start.origin = base.parameters();
  return start;
}

// The model and metrics of the last point, not what tells that it has ended.
void copy_point(const fs::path& from, const fs::path& to) {
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const fs::path name = entry.path().filename();
    if (entry.is_regular_file() && name != "result.json")
      write_text_file(to / name, MappedFile(entry.path()).text());
  }
}

}  // namespace

std::vector<double> frontier_targets(double control, double base, int64_t points) {
  if (points == 1) return {base};
  const double first = control + kStep;
  const double last = base > first + kStep ? base : control + kStep * static_cast<double>(points);
  std::vector<double> targets;
  for (int64_t n = 0; n < points; ++n)
    targets.push_back(first + (last - first) * static_cast<double>(n) / static_cast<double>(points - 1));
  return targets;
}

void run_frontier(const SharedRun& run, const Transformer& base, const LoopOptions& loop, RunReport& report) {
  const RunOptions& options = run.options;
  const std::vector<double> targets = frontier_targets(report.control->held_out.nats_per_token,
                                                       report.base->nats_per_token, options.frontier);
  int64_t tokens = 0;
  for (int64_t point = 1; point <= options.frontier; ++point) {
    const double wanted = targets[static_cast<size_t>(point - 1)];
    note(fmt::format("point {} of {}: {:.4f} nats/token held out", point, options.frontier, wanted));
    report.result = train_once(run, loop_of_point(loop, options, point, wanted), options.gate,
                               [&] { return start_of_point(options, base, point); });
    if (report.result.training.signal != 0) return;
    tokens += report.result.training.tokens;
    report.frontier.push_back({fmt::format("point-{}", point), wanted, report.result, tokens});
    report.target->wanted = wanted;
  }
  loop.ranks->run_first(
      [&] { copy_point(options.out / fmt::format("point-{}", options.frontier), options.out); });
}

}  // namespace openwork
