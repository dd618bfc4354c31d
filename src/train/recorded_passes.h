// Forward and backward passes of training, recorded where the device can (ops/recording.h): the first of a kind is
// computed as it is written, the second is recorded, and it and all that follow are played. Two passes are of one kind
// where tokens have one shape and gates are drawn alike, at the same place in the batch, but for the seed.
//   RecordedPasses passes(pass_recorder(weights.options()), layers);
//   loss = passes.run(inputs, [&](const PassInputs& given) { ...; loss.loss.backward(); return loss; });
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>

#include "ops/recording.h"
#include "train/loss.h"
#include "train/weight_plan.h"

namespace openwork {

// What records passes over such weights; null where they are computed each time: on the CPU, by several ranks (whose
// sums begin while a pass still runs), with LoRA or recomputed layers, and where OPENWORK_GRAPHS is 0.
std::unique_ptr<Recorder> pass_recorder(const WeightOptions& weights);

class RecordedPasses {
 public:
  // What it computes may depend on nothing but what it is given and memory that stays where it is.
  using Pass = std::function<PassLoss(const PassInputs&)>;

  RecordedPasses(std::unique_ptr<Recorder> recorder, int64_t layers)
      : recorder_(std::move(recorder)), layers_(layers) {}

  // The pass's numbers, which the next one of its kind writes over; the loss has no graph any more.
  PassLoss run(const PassInputs& inputs, const Pass& pass);

 private:
  using Kind =
      std::tuple<int64_t, int64_t, int64_t, bool, double>;  // samples, T + 1, first, sampled, sharpness
  struct Recorded {
    PassInputs inputs;  // where the recording reads
    PassLoss loss;
    std::unique_ptr<Recording> recording;
  };

  // The kinds that are recorded at most. A run has a handful: its lengths times its passes times two draws.
  static constexpr size_t kMostKinds = 32;

  bool record(Recorded& recorded, const PassInputs& inputs, const Pass& pass);
  void stop();
  NewSeeds seeds_for(const GateDraw& recorded, const GateDraw& wanted) const;

  std::unique_ptr<Recorder> recorder_;
  int64_t layers_;
  std::map<Kind, Recorded> kinds_;
};

}  // namespace openwork
