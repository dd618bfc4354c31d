// The training loop, the same for sparsify, its dense control and pretrain. A step:
//   1. samples step * batch ... of the data, shared by the ranks, each in `accumulate` passes of one call per
//      length (lengths.h); a call knows its samples' places in the batch, so that gates are drawn the same
//      however the batch is cut
//   2. loss and backward (loss.h), gradients summed in one flat float32 buffer (weights.h) and over ranks, each
//      rank keeping its share (gradient_exchange.h)
//   3. clip and AdamW of that share (optimiser.h), the multiplier (multiplier.h), the shares put together and
//      the compute copy of the weights (weight_exchange.h)
//   4. at equal shares of the run, the held-out loss, and with it the gap to the training loss (target.h)
// The host waits for the device only where it logs or saves: losses, the multiplier and gradient norms stay
// there. The first rank alone writes; all end with the same weights.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/batches.h"
#include "train/lengths.h"
#include "train/loss.h"
#include "train/multiplier.h"
#include "train/optimiser.h"
#include "train/ranks.h"
#include "train/schedule.h"
#include "train/target.h"
#include "train/weights.h"

namespace openwork {

// The training loss of a finished run by step, read from its metrics.jsonl.
class LossCurve {
 public:
  LossCurve() = default;
  explicit LossCurve(const std::filesystem::path& metrics);

  bool empty() const { return points_.empty(); }
  double at(double step) const;  // between the middles of its intervals linearly; beyond the ends as there

 private:
  std::vector<std::pair<double, double>> points_;  // middle of the interval, mean loss over it
};

struct LoopOptions {
  std::string name = "train";    // of the progress bar
  std::filesystem::path folder;  // metrics.jsonl, checkpoints/
  uint64_t seed = 0;
  int64_t batch = 16;                         // rows of the context's length in a step, of all ranks
  std::vector<int64_t> lengths;               // of the blocks that rows are cut into; none: whole rows
  int64_t accumulate = 1;                     // passes that each rank cuts its part into
  int64_t steps = 0;                          // the run ends after these, or after
  double minutes = 0;                         // this much training
  double learning_rate = 3e-4;                // peak
  double bias_rate = 1e-2, idle_rate = 1e-2;  // peaks of learned gate biases and idle scores
  Schedule schedule;
  AdamWOptions adamw;
  LossOptions loss;
  std::optional<MultiplierOptions> multiplier;  // none: plain cross-entropy
  double target = 0;                            // the multiplier's: a training loss, in nats
  LossCurve target_curve;  // where given, the target is this run's loss at the same step, plus `target`
  std::optional<HeldOutTarget> held_out_target;    // where given, it is this plus the gap instead of both
  int64_t log_every = 10, checkpoint_every = 500;  // steps
  // Held-out loss and kept edges (hard gates) of the weights as they are, at `measurements` equal shares of
  // the run; the next line of metrics tells them. The same on all ranks.
  std::function<HeldOutPoint(const Transformer&)> measure;
  int64_t measurements = 0;
  bool resume = false;
  std::shared_ptr<Ranks> ranks = std::make_shared<Ranks>();
  nlohmann::json identity =
      nlohmann::json::object();  // what a resumed run must have in common with its checkpoint
};

struct LoopResult {
  int64_t steps = 0, tokens = 0;
  double seconds = 0;  // of training, those before a resume too
  double tokens_per_second = 0;
  int signal = 0;                           // SIGINT or SIGTERM where one ended the run early
  double lambda = 0, loss = 0, target = 0;  // at the last line of metrics.jsonl: loss and target of training
  double gap = 0;                           // of the last measurement, where there is a held-out target
  // Of a process, in bytes: what was said beforehand (memory.h) and the most that one of them had.
  nlohmann::json predicted_memory;
  int64_t peak_memory = 0;
};

// Fails where ranks and passes do not divide the batch.
void check_batch(const LoopOptions& options);

// `weights` are this rank's share. Fails (exit 1) where the loss stops being finite, with the last checkpoint as it was. `dense` is the
// teacher of distillation, or null.
LoopResult run_loop(TrainedWeights& weights, Batches& batches, const Transformer* dense,
                    const LoopOptions& options);

}  // namespace openwork
