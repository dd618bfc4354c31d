// Which kernels a piece of work starts and how long each takes: torch's own profiler, its trace written as
// the JSON that chrome://tracing and Perfetto open.
#pragma once
#include <filesystem>
#include <functional>

namespace openwork {

void profile_to(const std::filesystem::path& file, const std::function<void()>& work);

}  // namespace openwork
