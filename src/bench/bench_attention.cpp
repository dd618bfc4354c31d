// openwork bench attention: dense attention, the gate written plainly, and the operator, in one run.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench/attention_bench.h"
#include "bench/benches.h"

namespace openwork {
namespace {

std::string number(double value, const char* format) {
  return value < 0 ? "-" : fmt::format(fmt::runtime(format), value);
}

std::string table_line(const AttentionBenchRow& row) {
  return fmt::format("{:<20} {:<40} {:>9} {:>7} {:>10} {:>7} {:>10} {:>9} {:>8}", row.shape, row.way,
                     number(row.forward_ms, "{:.3f}"), number(row.forward_ratio, "{:.2f}"),
                     number(row.forward_backward_ms, "{:.3f}"), number(row.forward_backward_ratio, "{:.2f}"),
                     number(row.peak_megabytes, "{:.1f}"), number(row.error, "{:.1e}"),
                     fmt::format("{:.2f} %", 100 * row.open_share));
}

nlohmann::json to_json(const AttentionBenchRow& row) {
  return {{"shape", row.shape},
          {"way", row.way},
          {"forward_ms", row.forward_ms},
          {"forward_ratio", row.forward_ratio},
          {"forward_backward_ms", row.forward_backward_ms},
          {"forward_backward_ratio", row.forward_backward_ratio},
          {"peak_megabytes", row.peak_megabytes},
          {"error", row.error},
          {"open_share", row.open_share}};
}

}  // namespace

nlohmann::json bench_attention(const BenchSettings& options) {
  AttentionBenchOptions settings;
  settings.device = options.device;
  // On a GPU the question is about training, so bf16 is the plain answer there.
  settings.dtype = settings.device.is_cpu() ? options.dtype : at::kBFloat16;
  if (!options.shape.empty())
    settings.shape = {options.shape[0], options.shape[1], options.shape[2], options.shape[3]};
  settings.long_sequences = options.long_run;
  settings.repeats = options.repeats;
  options.say(fmt::format("{:<20} {:<40} {:>9} {:>7} {:>10} {:>7} {:>10} {:>9} {:>8}", "shape", "way",
                          "fwd ms", "ratio", "fwd+bwd ms", "ratio", "peak MB", "error", "open"));
  nlohmann::json rows = nlohmann::json::array();
  for (const AttentionBenchRow& row :
       bench_attention(settings, [&](const AttentionBenchRow& done) { options.say(table_line(done)); })) {
    rows.push_back(to_json(row));
  }
  return {{"rows", rows},
          {"protocol",
           {{"ran_on", settings.device.str()},
            {"attention_dtype", c10::toString(settings.dtype)},
            {"repeats", options.repeats}}}};
}

}  // namespace openwork
