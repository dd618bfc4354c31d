#include "train/profile.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "base/error.h"

namespace openwork {

void profile_to(const std::filesystem::path& file, const std::function<void()>& work) {
  using namespace torch::profiler::impl;
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (at::hasCUDA()) activities.insert(ActivityType::CUDA);
  const ProfilerConfig settings(ProfilerState::KINETO);
  torch::autograd::profiler::prepareProfiler(settings, activities);
  torch::autograd::profiler::enableProfiler(settings, activities);
  work();
  const auto trace = torch::autograd::profiler::disableProfiler();
  std::error_code ignored;  // a folder that cannot be made is a file that is not there
  std::filesystem::create_directories(file.parent_path(), ignored);
  trace->save(file.string());
  if (!std::filesystem::exists(file))
    fail("the trace could not be written", file.string(), "choose another place");
}

}  // namespace openwork
