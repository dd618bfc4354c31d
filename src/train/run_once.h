// One training run of a folder, from its starting point to its measurement: what the dense control, the
// sparse model and each point of a frontier have in common.
#pragma once
#include <filesystem>

#include "train/sparsify.h"

namespace openwork {

// What all runs of one command share.
struct SharedRun {
  const RunOptions& options;
  Batches& batches;
  const Evaluate& evaluate;
  nlohmann::json model;                // identify_model's answer
  const Transformer* dense = nullptr;  // the teacher of distillation
  double offset = 0;  // added to what is measured on the way: the base on all blocks less the base on those
};

// Which model a run starts from, by hashes: its weights and adapter, or the configuration they are drawn by.
nlohmann::json identify_model(const RunOptions& options);

// How this process of a run has the weights of a model with this configuration, gates on it or not.
WeightOptions weights_of_run(const RunOptions& options, const LoopOptions& loop, const ModelConfig& config);

// Trains, saves, opens what was saved and measures that.
TrainedModel train_and_measure(const SharedRun& run, StartingPoint start, LoopOptions loop);

// The same once: with --resume, FOLDER/result.json of a run that has ended stands for it. Fails where that was made
// with other options (identity.h), of another length or measured on other blocks. `gate` is of what `start` gives.
TrainedModel train_once(const SharedRun& run, const LoopOptions& loop, GateKind gate,
                        const std::function<StartingPoint()>& start);

// The dense control that the command trained before, float32 on the CPU.
Transformer open_control(const RunOptions& options);

// The whole model that such a run saved in `folder`, float32 on the CPU.
Transformer open_saved(const RunOptions& options, const std::filesystem::path& folder);

}  // namespace openwork
