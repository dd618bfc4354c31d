// Work shared over torch's own threads. ATen's parallel_for is a template that shares work only in sources compiled for
// OpenMP, and in all others runs it on one thread without a word: it is compiled here, once, and nowhere else in this
// library.
#pragma once
#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace openwork {

// Calls work(begin, end) for parts of [0, count) of at least `grain`, on up to at::get_num_threads() threads; on this one
// alone inside work that is shared already.
void share_range(int64_t count, int64_t grain, c10::function_ref<void(int64_t begin, int64_t end)> work);

}  // namespace openwork
