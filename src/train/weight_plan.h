// Which numbers a run trains and where each lies in the flat buffers (weights.h), from the model's
// configuration alone: what it will take is known before a weight is read (memory.h).
//   [ matrices, with weight decay | norms, biases, embeddings | gate biases | idle scores ]
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "model/adapter.h"
#include "model/delta.h"
#include "model/transformer.h"
#include "train/shards.h"

namespace openwork {

struct WeightOptions {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;     // what the model computes in
  std::optional<LoraOptions> lora = {};  // none: all weights are trained
  bool learn_bias = false;               // gate biases get gradients
  bool learn_idle = false;               // and the scores of idle keys
  bool recompute = false;                // keep no layer's insides: recompute them in the backward pass
  uint64_t seed = 0;                     // of LoRA's first A
  std::optional<DeltaPlan> delta = {};   // the compact form to be saved, which round_to_base trains for
  int rank = 0, ranks = 1;               // which share of the numbers is this process's
  int64_t chunk_bytes = ShardPlan::kChunkBytes;  // what ranks exchange at a time
};

enum class Segment { kDecayed, kPlain, kGateBias, kGateIdle };
inline constexpr size_t kSegments = 4;

struct TrainedTensor {
  std::string
      name;  // the parameter's, or of low-rank parts the module's with .lora_A.weight or .lora_B.weight
  Segment segment = Segment::kPlain;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // among all numbers; the same on any number of ranks
  Tensor leaf;         // what the model computes with

  int64_t count() const;
  bool is_gate() const { return segment >= Segment::kGateBias; }
};

struct WeightPlan {
  std::vector<TrainedTensor> tensors;  // by segment
  std::array<int64_t, kSegments + 1> bounds = {};
  ShardPlan shards;  // of all but the gates' numbers, which are few: every rank has them all
  // With LoRA: the model's numbers that are not trained, and those of them that each pass computes with B A added.
  int64_t frozen = 0, adapted = 0;

  int64_t numbers() const { return bounds[kSegments]; }
  int64_t gates() const { return numbers() - bounds[static_cast<size_t>(Segment::kGateBias)]; }
};

WeightPlan plan_weights(const ModelConfig& config, const WeightOptions& options);

// Whether the model computes with a copy of the numbers: in bfloat16, or rounded to a compact form.
bool has_copies(const WeightOptions& options);
// Whether this process has all masters: those of other ranks are the model's own float32 weights, or what a
// compact form is rounded from.
bool has_whole_masters(const WeightOptions& options);

}  // namespace openwork
