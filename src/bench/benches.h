// The benchmarks behind `openwork bench`, one function each: says its table line by line, returns its rows and their
// protocol as JSON. Speeds are ratios to a plain way that is measured in the same run.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/circuits/task.h"
#include "model/transformer.h"
#include "text/tokenizer.h"

namespace openwork {

struct BenchSettings {
  std::string model = "openwork-8m", data, python, profile;
  std::string sparse = "openwork-8m-sparse",
              pruned;  // infer: the gated twin; a pruned one, made where none is named
  bool long_run = false;
  std::vector<int64_t> shape;  // attention: B, H, T, d, or empty for the bench's own
  int repeats = 5;
  int64_t samples = 16, context = 1024, lora = 0;
  int64_t longest = 8192;              // infer: tokens of the longest prompt
  std::vector<std::string> lora_full;  // with lora: modules that are trained whole (train)
  uint64_t seed = 0;
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  std::function<void(const std::string& line)> say;
  // The model under test, opened as every verb opens it, and its files for the protocol.
  std::function<Transformer(at::ScalarType dtype)> open_model;
  std::function<Transformer(const std::string& name)> open_named;  // another one, in the dtype of the options
  std::function<Tokenizer()> open_tokenizer;
  std::function<Task(const std::string& name, const Transformer& model)> open_task;
  std::function<nlohmann::json()> describe_model;
  std::function<nlohmann::json(const std::string& name)> describe_named;
};

nlohmann::json bench_load(const BenchSettings& settings);       // opening a model, against plain read()
nlohmann::json bench_tokenize(const BenchSettings& settings);   // against the reference package
nlohmann::json bench_attention(const BenchSettings& settings);  // the operator, against dense and plain
nlohmann::json bench_train(const BenchSettings& settings);  // a training step with gates, against one without
nlohmann::json bench_infer(const BenchSettings& settings);  // sparse and pruned models, against the dense one
nlohmann::json bench_draw(const BenchSettings& settings);   // a figure of 2,048 heads, against decimal text
nlohmann::json bench_circuit(const BenchSettings& settings);  // the head sweep, against one pass per head
nlohmann::json bench_trace(
    const BenchSettings& settings);  // an attribution graph, against autograd per target

}  // namespace openwork
