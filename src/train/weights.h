// The weights a run trains, laid out for it: every trained number lies in one flat float32 buffer (the
// master), its gradient at the same place of a second one, so that the optimiser, gradient clipping,
// checkpoints and an exchange between ranks each work on whole buffers and never on a list of tensors.
//   [ matrices, with weight decay | norms, biases, embeddings | gate biases | idle scores ]
// The model computes with leaves that are views: of the master itself in float32, of a bfloat16 copy
// otherwise (refresh() copies, collect_gradients() adds the copy's gradients to the float32 ones). Gate
// biases and idle scores are float32 always. With LoRA the flat buffer holds A and B of W + (alpha / rank) B
// A, and the model's own weights are frozen.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "model/adapter.h"
#include "model/delta.h"
#include "model/transformer.h"

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
};

enum class Segment { kDecayed, kPlain, kGateBias, kGateIdle };
inline constexpr size_t kSegments = 4;

struct TrainedTensor {
  std::string name;  // the parameter's, or for LoRA the module's with .lora_A.weight or .lora_B.weight
  Segment segment = Segment::kPlain;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // in the flat buffers
  Tensor leaf;         // what the model computes with
};

class TrainedWeights {
 public:
  // `start`: the model's parameters in list_parameters' order, anywhere, in any floating-point dtype.
  // `origin`: what a delta plan's changes are counted from, by name; empty: the start itself.
  TrainedWeights(ModelConfig config, const NamedTensors& start, const WeightOptions& options,
                 const NamedTensors& origin = {});

  const ModelConfig& config() const { return config_; }
  const WeightOptions& options() const { return options_; }
  // The model for one pass: with LoRA its weights are computed anew, as part of the pass's graph.
  const Transformer& pass_model();

  void refresh();  // after the masters changed
  // From here on the model computes with weights rounded to the plan's compact form of their change since the
  // origin, while gradients go on moving the masters. Calling it again costs nothing.
  void round_to_base(bool on);
  const NamedTensors& origin() const { return origin_; }  // what the plan's changes are counted from
  void zero_gradients();
  void collect_gradients();                            // after each backward pass
  void collect_gradients(int64_t begin, int64_t end);  // a range of the flat buffer, where that much is ready
  void shift(Segment segment, double amount);          // of gate biases or idle scores: adds to each

  const Tensor& masters() const { return masters_; }      // [N] float32
  const Tensor& gradients() const { return gradients_; }  // [N] float32
  Tensor slice(const Tensor& flat, Segment segment) const;
  const std::vector<TrainedTensor>& tensors() const { return tensors_; }
  Tensor master(const TrainedTensor& tensor) const;  // its part of the master, in its shape

  // The whole model as float32 on the CPU; LoRA's parts (named tensors and gate biases) where there are any.
  NamedTensors export_parameters() const;
  NamedTensors export_adapter() const;

 private:
  void plan();
  void place(const NamedTensors& start, const NamedTensors& origin);
  void make_leaves(const NamedTensors& start);
  void make_model(NamedTensors parameters);
  Tensor adapted(const std::string& name, const Tensor& weight, bool on_masters) const;

  ModelConfig config_;
  WeightOptions options_;
  std::vector<TrainedTensor> tensors_;
  std::array<int64_t, kSegments + 1> bounds_ = {};
  Tensor masters_, gradients_;  // [N]
  NamedTensors origin_;         // of the matrices in the delta plan, float32
  bool rounds_ = false;
  Tensor copies_, copy_gradients_;  // [all but the gates' numbers], undefined in float32
  NamedTensors parameters_;         // the model's: leaves or frozen
  std::optional<Transformer> model_;
};

}  // namespace openwork
