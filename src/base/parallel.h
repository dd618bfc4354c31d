// Work shared over threads: parallel_for calls work(i) for every i in [0, count), each exactly once, on up to
// thread_count() threads. The first exception thrown is rethrown here, after all threads have stopped.
#pragma once
#include <cstddef>
#include <functional>

namespace openwork {

// How many threads parallel work uses: set_thread_count's last value above 0, else OMP_NUM_THREADS, else the machine's cores.
int thread_count();
void set_thread_count(int count);

// `follow` is called with every count that is set from now on, so that a library with threads of its own keeps step.
void on_thread_count(std::function<void(int)> follow);

void parallel_for(size_t count, const std::function<void(size_t)>& work);

}  // namespace openwork
