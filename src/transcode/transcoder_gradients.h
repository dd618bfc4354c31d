// One pass of training over a batch of scaled activations: which features are active, what they write, the
// loss and its gradient, written out (a transcoder is two matrix products around a mask, so autograd would
// only keep more). With e = b_dec + f W_dec - y, weights w and the scaled variance v of layer l over N
// tokens:
//   loss_l = (1 / N) sum of w |e|^2 / v              de = 2 w e D / (N v)      (times D: Adam sees numbers
//   near 1) dW_dec = f^T de,  df = de W_dec^T where f is active,  dW_enc = df^T x,  db_enc = sum df,  db_dec
//   = sum de,  dW_skip = de^T x where a skip is trained
// Features that have not been active for long are dead. They get a gradient of their own: on every few tokens
// those of them with the largest pre-activations model the error that is left (the auxiliary loss of Gao et
// al. 2024), at 1/32 of its weight.
#pragma once
#include "transcode/calibration.h"
#include "transcode/transcoder_weights.h"

namespace openwork {

enum class FeatureSelection {
  kBatchTopK,  // k per token on average: all above a threshold per layer that is steered to leave k N of them
  kTopK,       // the k largest of every token
};

// What a pass adds up, all on the device; ranks sum it. Views of one flat float32 buffer.
struct PassSums {
  Tensor flat;                // [all of the following]
  TranscoderParts gradients;  // over the whole batch's N
  Tensor fired;               // [L, F] tokens a feature was active at
  Tensor error;               // [L] sum of w |e|^2 / (N v): the loss
  Tensor above;               // [L] features above the threshold, summed over tokens
  Tensor distance;            // [1] KL to the model's predictions, of a joint pass (joint_pass.h)
  Tensor own_error;           // [L] beside it: the loss on the model's own inputs
};
PassSums make_pass_sums(const TranscoderShape& shape, const at::Device& device);

struct PassOptions {
  FeatureSelection selection = FeatureSelection::kBatchTopK;
  int64_t k = 32;
  int64_t tokens = 0;  // of the whole batch, of all ranks: N
  int64_t stride = 1;  // every how many tokens dead features learn from; divides a block
};

// `parts` in the dtype of the activations, threshold [L] and dead [L, F] bool; adds to `sums`.
void add_pass(const TranscoderShape& shape, const TranscoderParts& parts,
              const ScaledActivations& activations, const ActivationScales& scales, const Tensor& threshold,
              const Tensor& dead, const PassOptions& options, const PassSums& sums);

}  // namespace openwork
