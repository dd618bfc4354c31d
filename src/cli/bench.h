// The benchmarks behind `openwork bench`, one function each: prints its table, returns its rows as JSON.
#pragma once
#include <string>

#include "cli/common.h"

namespace openwork {

struct BenchOptions {
  CommonOptions common;
  std::string what, model = "openwork-8m", data, python, profile;
  bool long_run = false;
  int repeats = 5;
  int64_t samples = 16, context = 1024, lora = 0;
};

nlohmann::json bench_load(const BenchOptions& options);            // opening a model, against plain read()
nlohmann::json bench_tokenize(const BenchOptions& options);        // against the reference package
nlohmann::json bench_attention_verb(const BenchOptions& options);  // the operator, against dense and plain
nlohmann::json bench_train(const BenchOptions& options);           // a training step with gates, against one without
nlohmann::json bench_draw(const BenchOptions& options);            // a figure of 2,048 heads, against decimal text
nlohmann::json bench_circuit(const BenchOptions& options);         // the head sweep, against one pass per head
nlohmann::json bench_trace(const BenchOptions& options);           // an attribution graph, against autograd per target

}  // namespace openwork
