// A model without the heads it does not use, as a folder every verb opens (docs/prune.md): measured, chosen, saved, and
// what was saved opened again and measured.
#pragma once
#include <optional>
#include <string>

#include "analyze/pruning.h"
#include "io/model_store.h"
#include "io/new_folder.h"

namespace openwork {

struct PruneRequest {
  std::string model;     // as it was asked for
  LocatedModel located;  // where it is: its tokenizer and transcoders serve the pruned one too
  std::string out;
  PruneSettings settings;    // checked (check_settings)
  std::optional<Task> task;  // by effect: on its metric; absent: on the loss
  std::string task_name;
  uint64_t seed = 0;  // of the losses' intervals
};

// With progress bars. `folder` is of request.out, and is committed.
PruneRecord prune_model(const Transformer& model, const TokenBlocks& blocks, const PruneRequest& request,
                        NewFolder& folder);

}  // namespace openwork
