// How much memory a process of a run takes: said before it begins, from the configuration alone, and measured
// when it has ended. What is kept from step to step is known to the byte; activations are an estimate
// (docs/scale.md). On a GPU it is the GPU's memory that is meant, as PyTorch hands it out.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "train/loop.h"

namespace openwork {

struct MemoryNeed {         // bytes
  int64_t program = 0;      // on the CPU: what the process has before the run, less what the run frees
  int64_t weights = 0;      // masters, copies, frozen weights
  int64_t gradients = 0;    // of them
  int64_t moments = 0;      // AdamW's two
  int64_t exchange = 0;     // what is on its way between ranks
  int64_t activations = 0;  // of one call, its logits, and a gradient on its way
  int64_t closing = 0;      // the saved model, opened to be measured, when the others but weights are gone

  int64_t total() const;
};
nlohmann::json to_json(const MemoryNeed& need);
std::string describe(
    const MemoryNeed& need);  // "2.31 GB (state 1.54, activations 0.61)": a line of a terminal

// `context`: tokens of a row of the batch.
MemoryNeed predict_memory(const ModelConfig& config, const WeightOptions& weights, const LoopOptions& loop,
                          int64_t context);

// The most memory this process has had since the object was made.
class PeakMemory {
 public:
  explicit PeakMemory(const at::Device& device);
  int64_t bytes() const;

 private:
  at::Device device_;
};

// What was freed, back to the system: the C library keeps pieces of a few megabytes for later, and a start
// whose tensors were let go of would stay in memory beside the run.
void return_freed_memory();
int64_t resident_bytes();  // of this process now
// Of the tensors on the CPU that nobody else holds: what goes when they do.
int64_t owned_bytes(const NamedTensors& tensors);

}  // namespace openwork
