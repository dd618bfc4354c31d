// Batches of tensor work side by side: each on one thread, start to end. Many small products that all threads
// share wait for one another at every step, and on a busy machine for threads that are not running; batches
// that share nothing do not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace openwork {

// How many batches run side by side: as many as torch has threads; on a GPU, which is fed by one, 1.
int64_t batches_at_once(bool on_gpu);

// work(n) for every n in [0, count), begun in this order, without gradients.
void run_batches(size_t count, bool on_gpu, const std::function<void(size_t)>& work);

}  // namespace openwork
