#include "analyze/capability/suite_sweep.h"

#include <fmt/format.h>

#include <optional>

#include "base/progress.h"

namespace openwork {

SuiteModel sweep_suite(const Transformer& model, const std::string& name, const SuiteSource& source,
                       const std::vector<const SuiteTestMaker*>& tests, Sweep& sweep) {
  std::optional<Progress> progress;
  SuiteOptions options;
  options.ranks = sweep.ranks();
  options.begin = [&](const std::string& test, int64_t prompts) {
    progress.emplace(fmt::format("suite {}: {}", name, test), static_cast<uint64_t>(prompts), " prompts");
  };
  options.advance = [&](int64_t prompts) { progress->advance(static_cast<uint64_t>(prompts)); };
  options.after_pass = [&] { sweep.stop_where_asked(); };
  sweep.scope = name + "/";
  options.memory.find = [&](const std::string& bin) { return sweep.find(bin); };
  options.memory.add = [&](const std::string& bin, const std::vector<double>& scores) {
    sweep.add(bin, scores);
  };
  return run_suite(model, name, source, tests, options);
}

}  // namespace openwork
