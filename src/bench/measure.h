// Time and memory of a piece of work on a device, for the benchmarks.
#pragma once
#include <c10/core/Device.h>

#include <functional>

namespace openwork {

void synchronise(const c10::Device& device);  // waits until the device has done what it was given

// Seconds of one call, the mean of `times` in a row, the device waited for before and after.
double seconds_of(const std::function<void()>& work, const c10::Device& device, int times);

// How far memory rises above where it stood while the work runs, in MB: the allocator's on a GPU, the
// process's on a CPU.
double peak_megabytes(const std::function<void()>& work, const c10::Device& device);

}  // namespace openwork
