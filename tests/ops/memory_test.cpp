// Nothing of size T x T is held: what forward and backward allocate beyond their inputs and outputs is
// measured with torch's own allocator and must stay small and not grow with T faster than the row sums do.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "ops/cases.h"

namespace openwork {
namespace {

// Passes on to torch's CPU allocator and keeps count of the bytes out and their peak.
class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr block = base_->allocate(bytes);
    void* address = block.release_context();
    note(address, bytes);
    return {address, address, &CountingAllocator::give_back, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &CountingAllocator::give_back; }

  void start() { peak_ = now_.load(); }
  size_t peak() const { return peak_; }
  size_t now() const { return now_; }

  static CountingAllocator& instance() {
    static CountingAllocator allocator;
    return allocator;
  }

 private:
  void note(void* address, size_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_[address] = bytes;
    now_ += bytes;
    peak_ = std::max(peak_.load(), now_.load());
  }
  static void give_back(void* address) {
    CountingAllocator& self = instance();
    {
      const std::lock_guard lock(self.mutex_);
      self.now_ -= self.sizes_[address];
      self.sizes_.erase(address);
    }
    self.base_->raw_deleter()(address);
  }

  c10::Allocator* base_ = c10::GetDefaultCPUAllocator();
  std::mutex mutex_;
  std::unordered_map<void*, size_t> sizes_;
  std::atomic<size_t> now_ = 0, peak_ = 0;
};

// Peak bytes during forward and backward beyond inputs and outputs.
size_t extra_bytes(const AttentionCase& of) {
  CountingAllocator& allocator = CountingAllocator::instance();
  c10::SetCPUAllocator(&allocator, 200);
  const AttentionInputs inputs = make_inputs(of);
  allocator.start();
  const size_t before = allocator.now();
  const AttentionGradients results = run_operator(of, inputs);
  const size_t outputs = allocator.now() - before;
  const size_t extra = allocator.peak() - before - outputs;
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 200);
  return extra;
}

TEST(GatedAttentionMemory, StaysFlatAsSequencesGrow) {
  for (const auto gate : kAllGates) {
    AttentionCase of;
    of.d = 16, of.gate = std::string(gate), of.seed = 1, of.bias = 5;  // whole vectors: no padded copies
    of.T = 4096;
    const size_t shorter = extra_bytes(of);
    of.T = 8192;
    const size_t longer = extra_bytes(of);
    const size_t row_sums = 4096 * 4 * sizeof(float);  // log-sum-exp and gate sums of the rows added
    EXPECT_LE(longer, shorter + row_sums) << gate;
    EXPECT_LT(longer, size_t{8192} * 8192 * sizeof(float) / 20) << gate;  // a twentieth of one T x T tensor
  }
}

}  // namespace
}  // namespace openwork
