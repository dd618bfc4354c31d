// Checkpoints of a run: FOLDER/step-00000120/{state.safetensors, state.json} and FOLDER/latest, a file that
// names the newest whole one. A checkpoint is written as step-N.part, synced, then renamed, and only then
// does `latest` change and the oldest go: a run killed at any moment, or one that fills the disk, leaves the
// last whole one in place. docs/training.md has the layout.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/transformer.h"

namespace openwork {

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder, int keep = 2);

  void save(int64_t step, const NamedTensors& tensors, const nlohmann::json& state);

  std::optional<int64_t> latest() const;  // the step of the newest whole one
  nlohmann::json read_state(int64_t step) const;
  // Copies the saved numbers into the tensors, whose names, shapes and dtypes must be the saved ones.
  void read_tensors(int64_t step, const NamedTensors& tensors) const;

 private:
  std::filesystem::path folder_of(int64_t step) const;
  std::vector<int64_t> list_steps() const;  // of whole checkpoints, oldest first
  void prune() const;

  std::filesystem::path folder_;
  int keep_;
};

}  // namespace openwork
