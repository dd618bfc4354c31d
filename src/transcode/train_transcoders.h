// Training transcoders on a model's own activations, streamed: nothing is stored but the tokens. A step:
//   1. samples step * batch ... of the data, shared by the ranks, through the frozen model
//      (mlp_activations.h)
//   2. active features, loss and gradients of all layers at once (transcoder_gradients.h), summed over ranks
//   3. Adam, decoders back to length 1; thresholds are moved towards k features per token; a feature that was
//      not active for `dead_after` tokens is dead: it learns from the error that is left, and its bias rises
//      until it is active again
// The run's last `joint_share` trains all layers in place instead (joint_pass.h): the optimiser begins anew, the
// rate rises again over the warm-up's share, thresholds follow the replaced model's inputs and are settled on them
// once more when the weights are final. With `own_weight` its steps also have the loss of the first part, so that
// layers stay true to the model's own inputs. The host waits for the device only where it logs or saves. Before the
// first step, scales and first features come from the first samples (calibration.h), or features from a set that is
// there. The thresholds the run ends with are those of the JumpReLU.
// Checkpoints, metrics.jsonl, ranks and signals are as in train/loop.h.
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "train/batches.h"
#include "train/loop.h"
#include "train/ranks.h"
#include "train/schedule.h"
#include "transcode/transcoder_gradients.h"

namespace openwork {

struct TranscodeOptions {
  TranscoderKind kind = TranscoderKind::kPerLayer;
  TranscoderInput input = TranscoderInput::kNormed;
  FeatureSelection selection = FeatureSelection::kBatchTopK;
  int64_t features = 0, k = 32;  // per layer; per token and layer
  int64_t dead_after = 500'000;  // tokens
  double learning_rate = 0;      // 0: 0.03 / sqrt(features)
  bool skip = false;             // train a linear path beside the features; per layer alone
  bool share_k = false;      // k is the mean over layers: one threshold, in units of each layer's deviation
  double joint_share = 0;    // of the run, its last part
  double joint_rate = 1;     // times the learning rate, there
  double output_weight = 1;  // of each layer's output beside the predictions, there
  double own_weight = 0;     // and of its output where its input is the model's own
  const Transcoders* start = nullptr;  // of this kind, width and input: where features begin

  std::filesystem::path folder;  // metrics.jsonl, checkpoints/
  uint64_t seed = 0;
  int64_t batch = 16;  // samples in a step, of all ranks together
  int64_t steps = 0;   // the run ends after these, or after
  double minutes = 0;  // this much training
  Schedule schedule;
  int64_t log_every = 10, checkpoint_every = 500;  // steps
  bool resume = false;
  std::shared_ptr<Ranks> ranks = std::make_shared<Ranks>();
  nlohmann::json identity =
      nlohmann::json::object();  // what a resumed run must have in common, besides these
};

struct TranscodeResult {
  Transcoders
      transcoders;      // on the CPU; model, hash and scan are the caller's to say. Empty where interrupted
  LoopResult training;  // its loss is the share of variance that is not explained, mean over layers
};

// Fails where the options make no run.
void check_transcode_options(const TranscodeOptions& options, const ModelConfig& config);

// The model computes in its own dtype and so do the products here; masters are float32. Fails (exit 1) where
// the loss stops being finite.
TranscodeResult train_transcoders(const Transformer& model, Batches& batches,
                                  const TranscodeOptions& options);

}  // namespace openwork
