// Ranks on a GPU; skips where there is none. Everything happens in child processes, which CUDA wants fresh.
#include <gmock/gmock.h>

#include "ops/gated_attention.h"
#include "train/memory.h"
#include "train/nccl.h"
#include "train/rank_processes.h"

namespace openwork {
namespace {

constexpr int kNoGpu = 77;

bool has_gpu() {
  load_cuda_operators();
  return at::hasCUDA();
}

void expect_all_right(const std::vector<int>& codes) {
  if (codes.front() == kNoGpu) GTEST_SKIP() << "no GPU here";
  EXPECT_THAT(codes, testing::Each(0));
}

TEST(RanksOnGpu, ThatShareOneAddUpOverGloo) {
  expect_all_right(run_ranks(2, [](Ranks& ranks) {
    if (!has_gpu()) return kNoGpu;
    const at::Device device(at::kCUDA, 0);
    ranks.use_device(device);  // the same for both: NCCL would refuse it
    const at::Tensor x = at::full({100000}, ranks.rank() + 1.0, at::TensorOptions().device(device));
    ranks.sum(x);
    const at::Tensor first = at::full({7}, ranks.rank() + 1.0, at::TensorOptions().device(device));
    ranks.broadcast(first);
    const at::Tensor pieces = at::full({2000}, ranks.rank() + 1.0, at::TensorOptions().device(device)),
                     own = pieces.narrow(0, 1000 * ranks.rank(), 1000);
    ranks.start_scatter_sum(pieces)();
    bool right = own.eq(3).all().item<bool>();
    own.fill_(ranks.rank());
    ranks.start_gather(pieces)();
    right = right && pieces.narrow(0, 0, 1000).eq(0).all().item<bool>() &&
            pieces.narrow(0, 1000, 1000).eq(1).all().item<bool>();
    right = right && x.eq(3).all().item<bool>() && first.eq(1).all().item<bool>();
    return right && std::string_view(ranks.transport()) == "gloo" ? 0 : 1;
  }));
}

// As in a resumed control, which has put nothing on the GPU when its memory is first asked for.
TEST(MemoryOnGpu, IsCountedFromBeforeItsFirstUse) {
  expect_all_right(run_ranks(1, [](Ranks&) {
    if (!has_gpu()) return kNoGpu;
    const at::Device device(at::kCUDA, 0);
    const PeakMemory peak(device);
    const at::Tensor x = at::zeros({1 << 20}, at::TensorOptions().device(device));
    return peak.bytes() >= x.numel() * x.element_size() ? 0 : 1;
  }));
}

TEST(RanksOnGpu, NcclIsCalledRightByOne) {
  expect_all_right(run_ranks(1, [](Ranks&) {
    if (!has_gpu() || !Nccl::is_here()) return kNoGpu;
    const at::Device device(at::kCUDA, 0);
    Nccl nccl(device, 0, 1, Nccl::make_id());
    bool right = true;
    for (const auto dtype : {at::kFloat, at::kDouble, at::kLong}) {
      const at::Tensor x = at::arange(100000, at::TensorOptions().device(device).dtype(dtype));
      const at::Tensor before = x.clone();
      nccl.start_sum(x)();
      nccl.broadcast(x);
      nccl.start_scatter_sum(x)();
      nccl.start_gather(x)();
      right = right && at::equal(x, before);
    }
    return right ? 0 : 1;
  }));
}

}  // namespace
}  // namespace openwork
