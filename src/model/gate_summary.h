// The gates of a model on disk, read without its other weights: what `inspect` shows.
#pragma once
#include <filesystem>
#include <optional>

#include "model/config.h"

namespace openwork {

struct GateRange {
  float low, high;  // over all heads of all layers; an idle score may be infinite
};

struct GateSummary {
  GateKind kind = GateKind::kNone;
  std::optional<GateRange> bias, idle;  // none where the files hold no such tensor
};

// `adapter`: an adapter's or a compact difference's folder, whose gates stand where it has any.
GateSummary summarise_gates(const std::filesystem::path& model,
                            const std::optional<std::filesystem::path>& adapter);

}  // namespace openwork
