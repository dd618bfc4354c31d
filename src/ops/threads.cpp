#include "ops/threads.h"

#include <ATen/Parallel.h>

#ifndef _OPENMP
#error "compiled without OpenMP, at::parallel_for is a plain loop"
#endif

namespace openwork {

void share_range(int64_t count, int64_t grain, c10::function_ref<void(int64_t, int64_t)> work) {
  at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) { work(begin, end); });
}

}  // namespace openwork
