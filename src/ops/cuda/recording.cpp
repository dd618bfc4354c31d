// ops/recording.h by CUDA graphs.
#include "ops/recording.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "ops/cuda/seeded_nodes.h"

namespace openwork {
namespace {

// Everything that belongs to one device's recordings.
struct Place {
  at::Device device;
  c10::cuda::CUDAStream stream;  // that work is recorded on; never the default one, which cannot be
  at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
};

class CudaRecording : public Recording {
 public:
  CudaRecording(const Place& place, const std::function<void()>& work) : device_(place.device) {
    const c10::cuda::CUDAStreamGuard on_stream(place.stream);
    c10::cuda::device_synchronize();
    graph_.capture_begin(place.pool, cudaStreamCaptureModeThreadLocal);
    try {
      work();
      graph_.capture_end();
    } catch (...) {
      end_failed_capture(place);
      throw;
    }
    nodes_.stop();
    graph_.instantiate();
  }

  void play(const NewSeeds& seeds) override {
    const c10::cuda::CUDAGuard on_device(device_);
    nodes_.write(graph_.raw_cuda_graph_exec(), seeds);
    graph_.replay();
  }

 private:
  // The stream and the allocator must leave the capture, whatever broke it: torch's graph lets go of the stream and then
  // fails, before it would have told the allocator.
  void end_failed_capture(const Place& place) noexcept {
    namespace allocator = c10::cuda::CUDACachingAllocator;
    const auto succeeds = [](const auto& call) {
      try {
        call();
        return true;
      } catch (const c10::Error&) {
        return false;
      }
    };
    const auto device = place.device.index();
    if (!succeeds([&] { graph_.capture_end(); }) &&
        succeeds([&] { allocator::endAllocateToPool(device, place.pool); }))
      succeeds([&] { allocator::releasePool(device, place.pool); });
    cudaGetLastError();
  }

  at::Device device_;
  SeededNodes nodes_;
  at::cuda::CUDAGraph graph_{/*keep_graph=*/true};  // nodes are named by the graph it was made of
};

class CudaRecorder : public Recorder {
 public:
  explicit CudaRecorder(const at::Device& device)
      : place_{device, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())} {}

  bool has_room() override {
    constexpr size_t kAll = 0;  // the statistic over all pools
    c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(at::kCUDA);
    allocator->emptyCache();
    const auto held = allocator->getDeviceStats(place_.device.index()).allocated_bytes[kAll];
    const auto free = static_cast<int64_t>(allocator->getMemoryInfo(place_.device.index()).first);
    return held.peak - held.current <= free / 2;
  }

  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    try {
      return std::make_unique<CudaRecording>(place_, work);
    } catch (...) {
      place_.pool = at::cuda::graph_pool_handle();  // what was let go of is not taken up again
      throw;
    }
  }

 private:
  Place place_;
};

}  // namespace
}  // namespace openwork

// Found by name in this library, by make_recorder.
extern "C" __attribute__((visibility("default"))) openwork::Recorder* openwork_make_cuda_recorder(
    const at::Device& device) {
  return new openwork::CudaRecorder(device);
}
