// The weights a run trains, laid out for it: every trained number lies in one flat float32 buffer (the
// master), its gradient at the same place of a second one, so that the optimiser, gradient clipping,
// checkpoints and an exchange between ranks each work on whole buffers and never on a list of tensors.
//   [ matrices, with weight decay | norms, biases, embeddings | padding | gate biases | idle scores ]
// The model computes with leaves that are views: of the master itself in float32, of a bfloat16 copy
// otherwise (refresh() copies, collect_gradients() adds the copy's gradients to the float32 ones, and writes those
// of a step's first pass over them). Gate biases and idle scores are float32 always. With LoRA the flat buffer
// holds A and B of W + (alpha / rank) B A and the parameters of modules that are trained whole; the model's other
// weights are frozen.
// Ranks share the numbers before the gates (shards.h), each with moments for its share alone. What else is
// whole follows from what the model computes with:
//   float32   masters and gradients are whole, since leaves are views of them; a rank's own pieces count
//   bfloat16  copies and their gradients are whole; masters and float32 gradients are [share | gates]
// (With a compact form masters are whole too: it is rounded from whole rows.)
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "train/weight_plan.h"
#include "train/weight_rounding.h"

namespace openwork {

class TrainedWeights {
 public:
  // `start`: the model's parameters in list_parameters' order, anywhere, in any floating-point dtype.
  // `origin`: what a delta plan's changes are counted from, by name; empty: the start itself.
  // What is trained is let go of as it is copied, so that a start that nobody else holds takes no room beside.
  TrainedWeights(ModelConfig config, NamedTensors start, const WeightOptions& options,
                 const NamedTensors& origin = {});

  const ModelConfig& config() const { return config_; }
  const WeightOptions& options() const { return options_; }
  const WeightPlan& plan() const { return plan_; }
  // The model for one pass: its rounded weights are brought up to date first; with LoRA all weights are computed
  // anew, as part of the pass's graph.
  const Transformer& pass_model();

  void refresh();  // after the masters changed; of several ranks: share_weights (weight_exchange.h)
  // From here on the model computes with weights that are `share` of the way (0 to 1) from the masters to the
  // plan's compact form of their change since the origin, while gradients go on moving the masters.
  void round_to_base(double share);
  const NamedTensors& origin() const { return rounding_->origin(); }  // of a delta plan's changes
  // Of one rank with copies the float32 ones stay as they are until collect_gradients() writes over them.
  void zero_gradients();
  void collect_gradients();                             // one rank alone, after each backward pass
  Tensor take_gradients(int64_t begin, int64_t count);  // of the copies, as float32; leaves zeros
  void release_gradients();                             // after the last step: gives their memory back
  void shift(Segment segment, double amount);           // of gate biases or idle scores: adds to each

  const Tensor& masters() const { return masters_; }      // float32, whole or [share | gates]
  const Tensor& gradients() const { return gradients_; }  // likewise
  const Tensor& copies() const { return copies_; }        // [padded], undefined in float32
  Tensor gates_of(const Tensor& flat) const;              // the last numbers of a flat buffer
  bool is_whole(const Tensor& flat) const;                // else [share | gates]
  // This rank's numbers of a segment, in ranges that lie together everywhere.
  struct Owned {
    int64_t place = 0;  // in buffers of [share | gates]
    Tensor master, gradient;
  };
  std::vector<Owned> owned(Segment segment) const;
  // This rank's piece of a chunk in a flat buffer of either kind.
  Tensor own_piece(const Tensor& flat, const ShardPlan::Chunk& chunk) const;

  const std::vector<TrainedTensor>& tensors() const { return plan_.tensors; }
  Tensor master(const TrainedTensor& tensor) const;  // in its shape; of a rank that has it

  // The whole model as float32 on the CPU; of LoRA all that is trained: its parts, whole modules, gates.
  // `trained`: all numbers in the order of their offsets (gather_masters), where masters are not whole.
  NamedTensors export_parameters(const Tensor& trained = {}) const;
  NamedTensors export_adapter(const Tensor& trained = {}) const;

 private:
  void place(NamedTensors& start);
  void make_gradients();
  void write_master(const TrainedTensor& tensor, const Tensor& numbers);
  void make_leaves(const NamedTensors& start);
  void make_rounding(const NamedTensors& origin);
  void make_model(NamedTensors parameters);
  // W + (alpha / rank) B A with the tensors that `find` gives for A and B.
  Tensor adapted(const std::string& name, const Tensor& weight,
                 const std::function<Tensor(const TrainedTensor&)>& find) const;
  Tensor view(const Tensor& flat, const TrainedTensor& tensor) const;
  Tensor trained_tensor(const Tensor& trained, const TrainedTensor& tensor) const;

  ModelConfig config_;
  WeightOptions options_;
  WeightPlan plan_;
  Tensor masters_, gradients_;
  std::optional<WeightRounding> rounding_;  // where there is a delta plan
  double rounded_share_ = 0;
  bool rounding_is_due_ = false;
  bool collects_anew_ = false;      // the next pass is a step's first: its gradients are written, not added
  Tensor copies_, copy_gradients_;  // [padded], undefined in float32
  NamedTensors parameters_;         // the model's: leaves or frozen
  std::optional<Transformer> model_;
};

}  // namespace openwork
