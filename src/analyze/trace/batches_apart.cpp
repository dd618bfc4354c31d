#include "analyze/trace/batches_apart.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>

#include "ops/threads.h"

namespace openwork {

int64_t batches_at_once(bool on_gpu) {
  return on_gpu ? 1 : at::get_num_threads();
}

void run_batches(size_t count, bool on_gpu, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  // Whoever is free takes the next; operators inside shared work do not divide their work again.
  const auto take = [&](int64_t, int64_t) {
    const at::NoGradGuard no_grad;  // is a thread's own
    for (size_t n = next++; n < count; n = next++) work(n);
  };
  const int64_t threads = std::min<int64_t>(batches_at_once(on_gpu), static_cast<int64_t>(count));
  share_range(threads, 1, take);
}

}  // namespace openwork
