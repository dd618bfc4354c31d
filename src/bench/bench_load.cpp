// openwork bench load: opening a model against plain read() of the same bytes, all from the page cache.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/median.h"
#include "bench/benches.h"
#include "io/model_store.h"
#include "model/load.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

double median_seconds(int repeats, const std::function<void()>& work) {
  std::vector<double> seconds;
  work();  // warms the page cache
  for (int n = 0; n < repeats; ++n) {
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return median(seconds);
}

std::vector<fs::path> weight_files(const fs::path& model) {
  if (!fs::is_directory(model)) return {model};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(model)) {
    const std::string ending = entry.path().extension();
    if (ending == ".safetensors" || ending == ".bin" || ending == ".pth" || ending == ".gguf")
      files.push_back(entry.path());
  }
  return files;
}

uint64_t read_plainly(const std::vector<fs::path>& files) {
  std::vector<char> buffer(1 << 20);
  uint64_t total = 0;
  for (const fs::path& file : files) {
    const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail_input("cannot be read", file.string(), "check the path");
    for (ssize_t got = 0; (got = read(descriptor, buffer.data(), buffer.size())) > 0;)
      total += static_cast<uint64_t>(got);
    close(descriptor);
  }
  return total;
}

}  // namespace

nlohmann::json bench_load(const BenchSettings& options) {
  const fs::path path = locate_model(options.model).path;
  const std::vector<fs::path> files = weight_files(path);
  uint64_t bytes = 0;
  const double plain = median_seconds(options.repeats, [&] { bytes = read_plainly(files); });
  const std::vector<std::pair<std::string, std::function<void()>>> ways = {
      {"open (header only)", [&] { open_weights(path); }},
      {"load fp32", [&] { load_model(path, {.dtype = at::kFloat}); }},
      {"load bf16", [&] { load_model(path, {.dtype = at::kBFloat16}); }}};
  const double size = static_cast<double>(bytes);
  nlohmann::json rows = nlohmann::json::array();
  const auto report = [&](const std::string& way, double seconds) {
    options.say(fmt::format("{:<20} {:>10.3f} ms {:>9.2f} GB/s {:>9.2f} x plain read's time", way,
                            1e3 * seconds, size / seconds / 1e9, seconds / plain));
    rows.push_back({{"way", way},
                    {"seconds", seconds},
                    {"gigabytes_per_second", size / seconds / 1e9},
                    {"ratio_to_read", seconds / plain}});
  };
  report("plain read()", plain);
  for (const auto& [name, work] : ways) report(name, median_seconds(options.repeats, work));
  return {{"model", options.model},
          {"bytes", bytes},
          {"rows", rows},
          {"protocol", {{"model", options.describe_model()}}}};
}

}  // namespace openwork
