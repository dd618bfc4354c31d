// One pass of training in place: every MLP of the model replaced at once by its transcoder, whose input is then
// what the transcoders below have made of the text, errors and all. Against the model's own pass on the same
// tokens:
//   loss = KL(model's predictions || replaced model's) + w / L * sum over layers of loss_l
// loss_l as in transcoder_gradients.h, with the model's own MLP output as y. Gradients go through the frozen
// model to all transcoders (autograd: what one layer writes wrong the layers above it can learn to right).
// Features are those above their layer's threshold, whatever the selection.
#pragma once
#include "transcode/transcoder_gradients.h"

namespace openwork {

struct JointOptions {
  double output_weight = 1;  // w
  int64_t tokens = 0;        // of the whole batch, of all ranks and passes: N
};

// ids [B, T]; `own`: the model's own pass over them; `parts` in the model's dtype; threshold [L]. Adds to `sums` gradients of D L times the loss over
// the whole batch's N (D L: as large as add_pass's are), fired, above, error (each layer's loss_l) and distance
// (KL). The logits are made for a few samples at a time.
void add_joint_pass(const Transformer& model, TranscoderInput input, const Tensor& ids,
                    const ScaledActivations& own, const TranscoderShape& shape, const TranscoderParts& parts,
                    const ActivationScales& scales, const Tensor& threshold, const JointOptions& options,
                    const PassSums& sums);

// Samples of T tokens that one pass may take, so that what it keeps for the way back stays near 2 GB on the
// CPU and 40 GB on a GPU.
int64_t choose_joint_samples(const Transformer& model, const TranscoderShape& shape, int64_t context);

// The replaced model alone, without gradients: adds to `sums.above`, what each layer has above its threshold
// once all layers below are replaced.
void count_active(const Transformer& model, TranscoderInput input, const Tensor& ids,
                  const TranscoderShape& shape, const TranscoderParts& parts, const ActivationScales& scales,
                  const Tensor& threshold, const PassSums& sums);

}  // namespace openwork
