#include "train/sharded_checkpoint.h"

#include "model/save.h"
#include "train/weight_exchange.h"

namespace openwork {

void save_checkpoint(CheckpointFolder& folder, int64_t step, const RunTensors& tensors,
                     const nlohmann::json& state, const TrainedWeights& weights, Ranks& ranks) {
  if (ranks.decide(folder.has(step))) return;  // the same step of the same run: the same numbers
  if (!ranks.is_first()) {
    // In the order of names, which is the order in which the first rank writes those of one dtype.
    for (const auto& [name, flat] : tensors.flat) gather_flat(weights, flat, ranks, {});
    return;
  }
  std::vector<OutputTensor> output;
  for (const auto& [name, flat] : tensors.flat) {
    const auto produce = [&weights, &ranks, flat = flat](const ByteSink& sink) {
      gather_flat(weights, flat, ranks, [&](const Tensor& piece) { write_pieces(piece, sink); });
    };
    output.push_back({name, DType::kF32, {weights.plan().numbers()}, {}, produce});
  }
  for (const auto& [name, tensor] : tensors.small) output.push_back(output_of(name, tensor));
  folder.write(step, std::move(output), state);
}

void read_checkpoint_tensors(const CheckpointFolder& folder, int64_t step, const RunTensors& tensors,
                             const TrainedWeights& weights) {
  folder.read_tensors(step, tensors.small);
  for (const auto& [name, flat] : tensors.flat)
    folder.read_places(step, name, weights.plan().numbers(), places_of(weights, flat));
}

nlohmann::json describe_layout(const TrainedWeights& weights) {
  nlohmann::json layout = nlohmann::json::array();
  for (const TrainedTensor& tensor : weights.tensors())
    layout.push_back({tensor.name, tensor.offset, tensor.shape});
  return layout;
}

}  // namespace openwork
