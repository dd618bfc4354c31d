#include "train/rank_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/philox.h"

namespace openwork {
namespace {

constexpr int kMostRanks = 1 << 20;

// The names one launcher gives to the same four numbers; an empty one is not given.
struct Launcher {
  const char *rank, *count, *local, *local_count;
};

constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

int parse_number(const char* name, const std::string& text, int low, int high) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > high) {
    fail_input(fmt::format("{} is '{}'", name, printable(text, 40)), "environment",
               fmt::format("set it to a number from {} to {}, or unset it to run alone", low, high));
  }
  return value;
}

// A batch script has SLURM_PROCID and SLURM_NTASKS too, but only what srun starts is a step with peers.
bool is_batch_shell(const Launcher& launcher, const Variable& variable) {
  return std::string_view(launcher.rank) == "SLURM_PROCID" && variable("SLURM_JOB_ID") &&
         !variable("SLURM_STEP_ID");
}

bool read_numbers(const Launcher& launcher, const Variable& variable, RankPlace& place) {
  const auto rank = variable(launcher.rank), count = variable(launcher.count);
  if (!rank || !count || is_batch_shell(launcher, variable)) return false;
  place.count = parse_number(launcher.count, *count, 1, kMostRanks);
  place.rank = parse_number(launcher.rank, *rank, 0, place.count - 1);
  const auto local = variable(launcher.local), local_count = variable(launcher.local_count);
  place.local = local ? parse_number(launcher.local, *local, 0, place.count - 1) : place.rank;
  place.local_count =
      local_count ? parse_number(launcher.local_count, *local_count, 1, kMostRanks) : place.count;
  place.local_count = std::max(std::min(place.local_count, place.count), place.local + 1);
  return true;
}

std::string find_address(const Variable& variable, const RankPlace& place) {
  if (const auto address = variable("MASTER_ADDR")) return *address;
  if (const auto list = variable("SLURM_STEP_NODELIST")) return first_slurm_host(*list);
  if (const auto list = variable("SLURM_JOB_NODELIST")) return first_slurm_host(*list);
  if (place.local_count == place.count) return "127.0.0.1";
  fail_input("the ranks do not know where to meet", "environment",
             "set MASTER_ADDR to the first machine's address and MASTER_PORT to a free port there");
}

uint16_t find_port(const Variable& variable) {
  if (const auto port = variable("MASTER_PORT"))
    return static_cast<uint16_t>(parse_number("MASTER_PORT", *port, 1, 65535));
  std::string job;
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "PMI_JOBID"})
    job += variable(name).value_or("") + "/";
  uint64_t mixed = 0;
  for (const char letter : job) mixed = mix_seed(mixed, static_cast<unsigned char>(letter));
  return static_cast<uint16_t>(20000 + mixed % 12000);  // below the ports systems hand out by themselves
}

}  // namespace

std::string first_slurm_host(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of(",-]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

RankPlace read_rank_place(const Variable& variable) {
  RankPlace place;
  for (const Launcher& launcher : kLaunchers) {
    if (!read_numbers(launcher, variable, place)) continue;
    if (place.count == 1) return {};
    place.address = find_address(variable, place);
    place.port = find_port(variable);
    return place;
  }
  return place;
}

RankPlace read_rank_place() {
  return read_rank_place([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  });
}

}  // namespace openwork
