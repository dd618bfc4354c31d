// Checkpoints of a run: FOLDER/step-00000120/{state.safetensors, state.json, SHA256SUMS} and FOLDER/latest, a
// file that names the newest one for people and scripts. A checkpoint is written as step-N.<process>.part,
// synced, then renamed, and only then does `latest` change and the oldest go, renamed before it is deleted: a
// run killed at any moment, or one that fills the disk, leaves the last whole one in place. What was damaged
// since is found by its sums. docs/training.md has the layout.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/transformer.h"

namespace openwork {

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder, int keep = 2);

  bool has(int64_t step) const;
  void save(int64_t step, const NamedTensors& tensors, const nlohmann::json& state);
  void write(int64_t step, std::vector<OutputTensor> tensors, const nlohmann::json& state);

  // Puts the folder in order before a run goes on from it: what a kill left half done goes, checkpoints whose
  // sums are wrong are set aside with a note (step-N.broken; they go when the next one is saved), and `latest`
  // names the newest whole one. Fails, and changes nothing, where there are checkpoints and none is whole. One
  // rank alone calls it.
  void recover() const;

  std::optional<int64_t> latest() const;  // the newest step
  nlohmann::json read_state(int64_t step) const;
  // Copies the saved numbers into the tensors, whose names, shapes and dtypes must be the saved ones.
  void read_tensors(int64_t step, const NamedTensors& tensors) const;
  // Of a saved float32 tensor [numbers] the parts that begin at these places, into these tensors.
  void read_places(int64_t step, const std::string& name, int64_t numbers,
                   const std::vector<std::pair<int64_t, Tensor>>& places) const;

 private:
  std::filesystem::path folder_of(int64_t step) const;
  std::vector<int64_t> list_steps() const;                     // of whole checkpoints, oldest first
  std::optional<std::string> find_damage(int64_t step) const;  // what is wrong with it; none: it is whole
  void write_latest(int64_t step) const;
  void prune() const;

  std::filesystem::path folder_;
  int keep_;
};

}  // namespace openwork
