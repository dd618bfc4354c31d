#include "model/gate_summary.h"

#include <algorithm>
#include <vector>

#include "io/json.h"
#include "io/tensor_file.h"
#include "model/delta.h"
#include "model/load.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

std::optional<GateRange> find_range(const TensorFile& file, std::string_view ending) {
  std::optional<GateRange> range;
  for (const TensorEntry& entry : file.entries()) {
    if (!entry.name.ends_with(ending) || entry.element_count() == 0) continue;
    std::vector<float> values(static_cast<size_t>(entry.element_count()));
    read_f32(entry, values);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    range =
        range ? GateRange{std::min(range->low, *low), std::max(range->high, *high)} : GateRange{*low, *high};
  }
  return range;
}

GateSummary summarise(GateKind kind, const fs::path& weights) {
  if (kind == GateKind::kNone) return {};
  const auto file = open_weights(weights);
  return {kind, find_range(*file, ".gate_bias"), find_range(*file, ".gate_idle")};
}

}  // namespace

GateSummary summarise_gates(const fs::path& model, const std::optional<fs::path>& adapter) {
  if (adapter) {
    const bool delta = is_delta(*adapter);
    const fs::path config = *adapter / (delta ? "config.json" : "adapter_config.json");
    const GateKind kind = read_gate(ConfigReader(read_json_file(config), config.string()));
    if (kind != GateKind::kNone)
      return summarise(kind, *adapter / (delta ? kDeltaFile : "adapter_model.safetensors"));
  }
  return summarise(load_config(model).gate, model);
}

}  // namespace openwork
