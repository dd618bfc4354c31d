#include "cli/host.h"

#include <ATen/Parallel.h>

#include <memory>
#include <mutex>

#include "base/parallel.h"
#include "cli/verbs.h"
#include "io/places.h"
#include "shell/common.h"
#include "shell/open.h"
#include "train/stop.h"

namespace openwork {
namespace {

// While it lives, results and figures go to `result`.
class Taking {
 public:
  explicit Taking(VerbResult& result) {
    offer_results([&](const nlohmann::json& json) { result.json = json; });
    draw::offer_figures([&](const draw::Figure& figure, const std::filesystem::path& path) {
      if (path != kFigureInMemory) return false;
      result.figures.push_back(figure);
      return true;
    });
  }
  ~Taking() {
    offer_results({});
    draw::offer_figures({});
  }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;
};

}  // namespace

void enter_host(const Host& host) {
  keep_freed_memory();
  on_thread_count([](int count) { at::set_num_threads(count); });
  set_builtin_folder(host.models);
  watch_progress(host.watch_progress);
  ask_host_to_stop(host.stop);
}

VerbResult call_verb(std::vector<std::string> arguments,
                     const std::vector<std::pair<std::string, const Transformer*>>& lent) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::vector<std::unique_ptr<LentModel>> models;
  for (const auto& [name, model] : lent) models.push_back(std::make_unique<LentModel>(name, *model));
  VerbResult result;
  const Taking taking(result);
  // Before what stands after a "--", where no option is one.
  arguments.insert(arguments.begin() + (arguments.empty() ? 0 : 1), {"--json", "-", "--quiet"});
  run_verb(arguments, program_help(), all_verbs());
  return result;
}

}  // namespace openwork
