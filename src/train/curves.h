// A run over its tokens, as metrics.jsonl tells it: what the report draws.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

namespace openwork {

struct TrainingCurves {
  std::vector<double> tokens, loss;        // of training, one entry per line of metrics
  std::vector<double> target, kept_edges;  // with gates, as many; kept_edges of the gates as drawn
  std::vector<double> held_out_tokens, held_out_loss, held_out_kept_edges;  // measured on the way, hard gates
};

// At most `points` of the lines, evenly spread, the last one among them; every held-out measurement.
TrainingCurves read_curves(const std::filesystem::path& metrics, size_t points = 1000);
// Of a run that went on where another ended, whose tokens were `tokens`.
void append_curves(TrainingCurves& curves, TrainingCurves more, double tokens);
nlohmann::json to_json(const TrainingCurves& curves);

}  // namespace openwork
