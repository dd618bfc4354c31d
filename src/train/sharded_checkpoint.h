// A checkpoint of a run whose flat buffers ranks share. On disk it is the checkpoint of one process: the first
// rank writes whole buffers, whose numbers it fetches from the others a chunk at a time while it writes; each
// rank reads back what is its own. So any number of ranks goes on with what any other number saved.
#pragma once
#include <map>
#include <string>

#include "train/checkpoint.h"
#include "train/ranks.h"
#include "train/weights.h"

namespace openwork {

struct RunTensors {
  std::map<std::string, Tensor> flat;  // [share | gates] or whole, by name
  NamedTensors small;                  // the same on all ranks
};

// All ranks call these.
void save_checkpoint(CheckpointFolder& folder, int64_t step, const RunTensors& tensors,
                     const nlohmann::json& state, const TrainedWeights& weights, Ranks& ranks);
void read_checkpoint_tensors(const CheckpointFolder& folder, int64_t step, const RunTensors& tensors,
                             const TrainedWeights& weights);

// [[name, offset, shape], ...]: the same for any number of ranks.
nlohmann::json describe_layout(const TrainedWeights& weights);

}  // namespace openwork
