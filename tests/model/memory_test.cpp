// What loading costs: nothing until weights are used, and no more than a tenth above them at the peak. Each
// measurement runs in a child process of its own, whose peak the system keeps (VmHWM).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/philox.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "model/architecture.h"
#include "model/load.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

double status_megabytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  }
  return 0;
}

// Peak memory in MB that `work` adds, measured in a fork so that tests do not see each other's.
double added_peak(const std::function<void()>& work) {
  auto* result = static_cast<double*>(
      mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  if (child == 0) {
    at::set_num_threads(1);                         // OpenMP's threads do not survive a fork
    std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
    const double before = status_megabytes("VmRSS");
    work();
    *result = status_megabytes("VmHWM") - before;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const double added = *result;
  munmap(result, sizeof(double));
  return added;
}

// A Llama of about 200 MB in bf16, random weights.
class LargeModel : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("openwork-memory-{}", getpid());
    fs::create_directories(folder_);
    const nlohmann::json json = {{"model_type", "llama"},          {"num_hidden_layers", 8},
                                 {"num_attention_heads", 16},      {"hidden_size", 1024},
                                 {"intermediate_size", 2816},      {"vocab_size", 4096},
                                 {"max_position_embeddings", 128}, {"tie_word_embeddings", true}};
    write_text_file(folder_ / "config.json", json.dump());
    const ModelConfig config = read_model_config(json, "test");
    std::vector<OutputTensor> outputs;
    for (const ParameterSpec& spec : list_parameters(llama_architecture(), config)) {
      int64_t count = 1;
      for (const int64_t size : spec.shape) count *= size;
      numbers_ += count;
      outputs.push_back({.name = spec.name,
                         .dtype = DType::kBF16,
                         .shape = spec.shape,
                         .produce = [count](const ByteSink& sink) {
                           const std::vector<uint16_t> values(static_cast<size_t>(count),
                                                              0x3c00);  // 0.0078125
                           sink(bytes_of(values));
                         }});
    }
    write_safetensors(folder_ / "model.safetensors", std::move(outputs));
  }
  void TearDown() override { fs::remove_all(folder_); }

  double megabytes(int bytes_each) const { return static_cast<double>(numbers_ * bytes_each) / 1048576; }

  fs::path folder_;
  int64_t numbers_ = 0;
};

TEST_F(LargeModel, OpeningTouchesNoWeights) {
  EXPECT_LT(added_peak([&] { load_config(folder_); }), 0.05 * megabytes(2));
}

TEST_F(LargeModel, PeakStaysWithinATenthOfTheWeightsAskedFor) {
  for (const auto& [dtype, bytes] :
       std::vector<std::pair<at::ScalarType, int>>{{at::kFloat, 4}, {at::kBFloat16, 2}}) {
    for (const bool trainable : {false, true}) {
      const double peak =
          added_peak([&, dtype = dtype] { load_model(folder_, {.dtype = dtype, .trainable = trainable}); });
      EXPECT_LT(peak, 1.1 * megabytes(bytes)) << c10::toString(dtype) << (trainable ? ", trainable" : "");
    }
  }
}

}  // namespace
}  // namespace openwork
