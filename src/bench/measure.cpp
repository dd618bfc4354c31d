#include "bench/measure.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

namespace openwork {
namespace {

// The process's memory or its peak in MB, as Linux counts it.
double process_megabytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stod(line.substr(key.size() + 1)) / 1024;
  }
  return 0;
}

}  // namespace

void synchronise(const c10::Device& device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

double seconds_of(const std::function<void()>& work, const c10::Device& device, int times) {
  synchronise(device);
  const auto start = std::chrono::steady_clock::now();
  for (int n = 0; n < times; ++n) work();
  synchronise(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / times;
}

double peak_megabytes(const std::function<void()>& work, const c10::Device& device) {
  if (device.is_cpu()) {
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from here
    const double before = process_megabytes("VmRSS");
    work();
    return std::max(0.0, process_megabytes("VmHWM") - before);
  }
  constexpr size_t kAll = 0;  // the statistic over all pools
  auto* allocator = c10::getDeviceAllocator(device.type());
  synchronise(device);
  const int64_t before = allocator->getDeviceStats(device.index()).allocated_bytes[kAll].current;
  allocator->resetPeakStats(device.index());
  work();
  synchronise(device);
  return static_cast<double>(allocator->getDeviceStats(device.index()).allocated_bytes[kAll].peak - before) /
         1048576;
}

}  // namespace openwork
