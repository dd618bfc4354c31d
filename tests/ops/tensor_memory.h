// How many bytes of tensors a piece of work holds at once, by torch's own account of this thread.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>

namespace openwork {

class TensorMemory : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  int64_t now_ = 0, peak_ = 0;
};

// The largest number of bytes above those at the start.
template <typename Work>
int64_t peak_bytes_of(Work work) {
  const auto memory = std::make_shared<TensorMemory>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, memory);
  work();
  return memory->peak();
}

}  // namespace openwork
