// What a verb does to share its work over the ranks of a job (torchrun, srun, mpirun).
#pragma once
#include <memory>

#include "shell/common.h"
#include "train/ranks.h"

namespace openwork {

// Joins the job that the environment names; one process alone where it names none. Call it after
// apply_common_options. Settles for this rank: its GPU (one each, where --device names none), its part of the
// machine's threads (where --threads names none), and that all but the first are silent. End with leave().
std::shared_ptr<Ranks> join_ranks(CommonOptions& options);

}  // namespace openwork
