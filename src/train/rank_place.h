// Which process of a job this is, from the variables its launcher sets. The first that is complete counts:
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   srun       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID (of a job step: a batch script's own shell is alone)
//   mpirun     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, or PMI_RANK, PMI_SIZE (MPICH, Intel
//   MPI)
// MASTER_ADDR and MASTER_PORT may be set with any of them. Where they are not: one machine meets at its own
// loopback address, srun at the step's first machine, and the port is made from the job's name.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace openwork {

struct RankPlace {
  int rank = 0, count = 1;
  int local = 0, local_count = 1;  // among the job's processes on this machine
  std::string address;             // where the ranks meet
  uint16_t port = 0;
};

// `variable` looks up an environment variable. Fails, naming it, on one that is no number or out of range,
// and where the meeting place is not known.
using Variable = std::function<std::optional<std::string>(const char* name)>;
RankPlace read_rank_place(const Variable& variable);
RankPlace read_rank_place();  // of this process

// The first machine of a Slurm list such as "node[07-10,12],login1": node07.
std::string first_slurm_host(const std::string& list);

}  // namespace openwork
