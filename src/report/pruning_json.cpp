#include "report/pruning_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/head_place.h"
#include "base/number_text.h"

namespace openwork {
namespace {

// Heads of the original shape that are not among the kept ones.
std::vector<std::string> name_removed(const PruneRecord& record) {
  std::vector<std::string> names;
  for (size_t layer = 0; layer < record.worth.size(); ++layer) {
    const std::vector<int64_t>& kept = record.kept[layer];
    for (size_t head = 0; head < record.worth[layer].size(); ++head) {
      if (!std::binary_search(kept.begin(), kept.end(), static_cast<int64_t>(head)))
        names.push_back(HeadPlace{static_cast<int64_t>(layer), static_cast<int64_t>(head)}.name());
    }
  }
  return names;
}

template <typename Number>
nlohmann::json or_null(const std::optional<Number>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

const char* prune_by_name(PruneBy by) {
  return by == PruneBy::kEdges ? "edges" : "effect";
}

nlohmann::json to_json(const PruneRecord& r) {
  return {{"model", r.model},
          {"folder", r.folder},
          {"by", prune_by_name(r.settings.by)},
          {"effect_of", r.effect_of.empty() ? nlohmann::json() : nlohmann::json(r.effect_of)},
          {"below", or_null(r.settings.below)},
          {"keep", or_null(r.settings.keep)},
          {"worth", r.worth},
          {"kept_heads", r.kept},
          {"removed", name_removed(r)},
          {"heads", {r.heads_before, r.heads_after}},
          {"parameters", {r.parameters_before, r.parameters_after}},
          {"before", to_json(r.before)},
          {"after", to_json(r.after)},
          {"largest_logit_difference", r.largest_logit_difference}};
}

std::vector<std::string> describe_pruning(const PruneRecord& r) {
  const auto empty =
      std::count_if(r.kept.begin(), r.kept.end(), [](const auto& kept) { return kept.empty(); });
  std::string layers = empty == 0 ? "" : fmt::format("; {} left without attention", count_of(empty, "layer"));
  const double before = static_cast<double>(r.parameters_before),
               after = static_cast<double>(r.parameters_after);
  return {
      fmt::format("heads       {} -> {}{}", r.heads_before, r.heads_after, layers),
      fmt::format("parameters  {} -> {} ({:.1f} % fewer)", r.parameters_before, r.parameters_after,
                  100 * (1 - after / before)),
      fmt::format("loss        {:.4f} -> {:.4f} nats per token ({:+.4f}), {} tokens", r.before.nats_per_token,
                  r.after.nats_per_token, r.after.nats_per_token - r.before.nats_per_token, r.before.tokens),
      fmt::format("logits      differ by at most {:.2g} on the first block", r.largest_logit_difference)};
}

}  // namespace openwork
