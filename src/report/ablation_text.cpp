#include "report/ablation_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/interval_text.h"

namespace openwork {

std::vector<std::string> format_effects(const AblationRecord& record, int64_t top) {
  std::vector<std::string> lines = {fmt::format("clean {:.4f}   corrupt {:.4f}   ({} ablation)", record.clean,
                                                record.corrupt, ablation_name(record.settings.ablation)),
                                    fmt::format("{:<14} {:>9}  95 % interval", "part", "effect")};
  std::vector<PartEffect> effects = record.effects;
  std::stable_sort(effects.begin(), effects.end(),
                   [](const PartEffect& a, const PartEffect& b) { return a.effect > b.effect; });
  for (size_t n = 0; n < effects.size() && n < static_cast<size_t>(top); ++n)
    lines.push_back(fmt::format("{:<14} {:>9.4f}  {}", to_string(effects[n].part), effects[n].effect,
                                interval_text(effects[n].interval, 4)));
  return lines;
}

}  // namespace openwork
