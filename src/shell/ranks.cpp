#include "shell/ranks.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/parallel.h"
#include "base/progress.h"
#include "shell/open.h"

namespace openwork {
namespace {

// cuda:N of this rank; several share one where there are more ranks than GPUs.
std::string choose_own_device(const CommonOptions& options, const RankPlace& place) {
  const at::Device device = choose_device(options);
  if (!device.is_cuda() || options.device.find(':') != std::string::npos) return options.device;
  const int count = static_cast<int>(at::detail::getCUDAHooks().deviceCount());
  return fmt::format("cuda:{}", place.local % std::max(1, count));
}

}  // namespace

std::shared_ptr<Ranks> join_ranks(CommonOptions& options) {
  const RankPlace place = read_rank_place();
  if (place.count == 1) return std::make_shared<Ranks>();
  if (options.threads == 0) {
    set_thread_count(std::max(1, thread_count() / place.local_count));
    at::set_num_threads(thread_count());
  }
  options.device = choose_own_device(options, place);
  options.speaks = place.rank == 0;
  if (!options.speaks) set_quiet(true);
  auto ranks = std::make_shared<Ranks>(place);
  ranks->use_device(choose_device(options));
  note(fmt::format("{} ranks over {}", ranks->count(), ranks->transport()));
  return ranks;
}

}  // namespace openwork
