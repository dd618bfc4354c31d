// openwork bench train: whole training steps of a known shape, with gates, without, and with attention
// written out.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench/benches.h"
#include "bench/train_bench.h"

namespace openwork {
namespace {

constexpr const char* kLine = "{:<38} {:>8} {:>12} {:>11} {:>11} {:>10}";

nlohmann::json to_json(const TrainBenchRow& row) {
  return {{"way", row.way},     {"samples", row.samples},     {"tokens_per_second", row.tokens_per_second},
          {"ratio", row.ratio}, {"teraflops", row.teraflops}, {"peak_megabytes", row.peak_megabytes}};
}

}  // namespace

nlohmann::json bench_train(const BenchSettings& options) {
  TrainBenchOptions settings;
  settings.shape = options.model;
  settings.device = options.device;
  // On a GPU the question is about training as it is done there: in bf16.
  settings.dtype = settings.device.is_cpu() ? options.dtype : at::kBFloat16;
  settings.samples = options.samples;
  settings.context = options.context;
  settings.steps = options.repeats;
  settings.seed = options.seed;
  settings.profile = options.profile;
  if (options.lora > 0) settings.lora = options.lora;
  settings.lora_full = options.lora_full;
  options.say(
      fmt::format(fmt::runtime(kLine), "way", "samples", "tokens/s", "time/dense", "TFLOP/s", "peak MB"));
  nlohmann::json rows = nlohmann::json::array();
  bench_training(settings, [&](const TrainBenchRow& row) {
    options.say(fmt::format(fmt::runtime(kLine), row.way, row.samples,
                            fmt::format("{:.0f}", row.tokens_per_second), fmt::format("{:.2f}", row.ratio),
                            fmt::format("{:.2f}", row.teraflops), fmt::format("{:.0f}", row.peak_megabytes)));
    rows.push_back(to_json(row));
  });
  return {{"rows", rows},
          {"protocol",
           {{"shape", settings.shape},
            {"ran_on", settings.device.str()},
            {"compute_dtype", c10::toString(settings.dtype)},
            {"context", settings.context},
            {"lora", options.lora},
            {"lora_full", options.lora_full},
            {"steps", settings.steps}}}};
}

}  // namespace openwork
