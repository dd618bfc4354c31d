// bench draw: the figure of 1,024 heads x 2 models at 500 tokens, from patterns in memory to files, beside
// the plain way other viewers take (every weight as decimal text), per head, in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "base/median.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "bench/benches.h"
#include "draw/head_grid.h"

namespace openwork {
namespace {

constexpr int64_t kLayers = 32, kHeads = 32, kModels = 2, kTokens = 500;
constexpr size_t kPatternSize = static_cast<size_t>(kTokens * kTokens);
constexpr size_t kPlainHeads = 16;  // of which the plain way is timed

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A number of kB out of /proc/self/status, as bytes; 0 where there is none.
double read_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return 1024 * std::stod(line.substr(key.size() + 1));
  }
  return 0;
}

// The most memory used since this object was made, beyond what was used then.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << 5;  // the kernel's high-water mark starts again from here
    before_ = read_status("VmRSS");
  }
  double bytes() const { return std::max(0.0, read_status("VmHWM") - before_); }

 private:
  double before_ = 0;
};

// Rows of noise with a diagonal and a sink of the head's own strength, each row summing to 1: as hard to pack
// as trained patterns are, and harder than most.
void fill_pattern(std::span<float> pattern, uint64_t head) {
  const double sharp = static_cast<double>(head % 7) / 7, sink = static_cast<double>(head % 5) / 8;
  for (int64_t i = 0; i < kTokens; ++i) {
    float* row = pattern.data() + i * kTokens;
    double sum = 0;
    for (int64_t j = 0; j <= i; ++j) {
      const uint32_t word = philox(head, static_cast<uint64_t>(i * kTokens + j) / 4).word[j % 4];
      row[j] = static_cast<float>(word >> 20) * static_cast<float>(word >> 20);
      sum += row[j];
    }
    for (int64_t j = 0; j <= i; ++j)
      row[j] = static_cast<float>((1 - sharp) * (1 - sink) * row[j] / std::max(sum, 1e-9));
    row[std::max<int64_t>(0, i - static_cast<int64_t>(head % 3))] += static_cast<float>(sharp * (1 - sink));
    row[0] += static_cast<float>(sink);
  }
}

draw::HeadGrid make_grid(const std::vector<float>& patterns) {
  draw::HeadGrid grid;
  grid.caption = {"1,024 heads x 2 models, 500 tokens", "made patterns", "bench draw"};
  const int64_t cells = choose_cells(kTokens, kModels * kLayers * kHeads);
  for (int64_t model = 0; model < kModels; ++model) {
    draw::HeadBlock block{fmt::format("model {}", model),
                          "",
                          draw::choose_columns(kLayers, kHeads),
                          std::vector<draw::HeadPanel>(kLayers * kHeads),
                          {}};
    parallel_for(block.panels.size(), [&](size_t n) {
      const std::span pattern(
          patterns.data() + (static_cast<size_t>(model) * block.panels.size() + n) * kPatternSize,
          kPatternSize);
      block.panels[n] = {
          fmt::format("L{}H{}", n / kHeads, n % kHeads), average_cells(pattern, kTokens, cells), {}};
    });
    grid.blocks.push_back(std::move(block));
  }
  return grid;
}

struct Timing {
  double seconds = 0, bytes = 0, memory = 0;
};

Timing time_format(const std::vector<float>& patterns, draw::Format format, int repeats) {
  std::vector<double> seconds;
  Timing timing;
  for (int n = 0; n < repeats; ++n) {
    const PeakMemory memory;
    const auto start = std::chrono::steady_clock::now();
    timing.bytes =
        static_cast<double>(draw::render_figure(draw::draw_head_grid(make_grid(patterns)), format).size());
    seconds.push_back(seconds_since(start));
    timing.memory = std::max(timing.memory, memory.bytes());
  }
  timing.seconds = median(seconds);
  return timing;
}

// A head's causal weights as decimal text, the way pages that carry their weights in a script write them.
Timing time_plain(const std::vector<float>& patterns) {
  const auto start = std::chrono::steady_clock::now();
  Timing timing;
  for (size_t head = 0; head < kPlainHeads; ++head) {
    std::string text = "[";
    for (int64_t i = 0; i < kTokens; ++i) {
      for (int64_t j = 0; j < kTokens; ++j) {
        fmt::format_to(std::back_inserter(text), "{},",
                       patterns[head * kPatternSize + static_cast<size_t>(i * kTokens + j)]);
      }
    }
    timing.bytes += static_cast<double>(text.size());
  }
  timing.seconds = seconds_since(start);
  const double scale = static_cast<double>(kModels * kLayers * kHeads) / static_cast<double>(kPlainHeads);
  return {timing.seconds * scale, timing.bytes * scale, 0};
}

}  // namespace

nlohmann::json bench_draw(const BenchSettings& options) {
  std::vector<float> patterns(static_cast<size_t>(kModels * kLayers * kHeads) * kPatternSize);
  parallel_for(static_cast<size_t>(kModels * kLayers * kHeads), [&](size_t head) {
    fill_pattern(std::span(patterns.data() + head * kPatternSize, kPatternSize), head);
  });
  const Timing plain = time_plain(patterns);
  nlohmann::json rows = nlohmann::json::array();
  options.say(fmt::format("{:<28} {:>9} {:>10} {:>14} {:>10} {:>10}", "1,024 heads x 2, 500 tokens",
                          "seconds", "MB", "memory (MiB)", "time", "size"));
  const auto report = [&](const char* name, const Timing& timing) {
    options.say(fmt::format("{:<28} {:>9.2f} {:>10.2f} {:>14.0f} {:>9.3f}x {:>9.4f}x", name, timing.seconds,
                            timing.bytes / 1e6, timing.memory / 1048576, timing.seconds / plain.seconds,
                            timing.bytes / plain.bytes));
    rows.push_back({{"what", name},
                    {"seconds", timing.seconds},
                    {"bytes", timing.bytes},
                    {"memory_bytes", timing.memory},
                    {"time_ratio", timing.seconds / plain.seconds},
                    {"size_ratio", timing.bytes / plain.bytes}});
  };
  report("decimal text (by 16 heads)", plain);
  report("svg", time_format(patterns, draw::Format::kSvg, options.repeats));
  report("pdf", time_format(patterns, draw::Format::kPdf, options.repeats));
  report("png, 150 dpi", time_format(patterns, draw::Format::kPng, options.repeats));
  return {{"rows", rows},
          {"protocol",
           {{"heads", kLayers * kHeads},
            {"models", kModels},
            {"tokens", kTokens},
            {"cells", choose_cells(kTokens, kModels * kLayers * kHeads)},
            {"repeats", options.repeats}}}};
}

}  // namespace openwork
