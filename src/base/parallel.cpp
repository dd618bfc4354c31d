#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace openwork {
namespace {

std::atomic<int> chosen_count{0};
std::function<void(int)> follow_count;

int usual_count() {
  const char* asked = std::getenv("OMP_NUM_THREADS");
  const int count = asked ? std::atoi(asked) : 0;
  return count > 0 ? count : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

int thread_count() {
  const int chosen = chosen_count.load();
  return chosen > 0 ? chosen : usual_count();
}

void set_thread_count(int count) {
  chosen_count.store(count);
  if (follow_count) follow_count(thread_count());
}

void on_thread_count(std::function<void(int)> follow) {
  follow_count = std::move(follow);
}

void parallel_for(size_t count, const std::function<void(size_t)>& work) {
  const size_t threads = std::min<size_t>(count, static_cast<size_t>(thread_count()));
  std::atomic<size_t> next{0};
  std::exception_ptr first_error;
  std::mutex error_mutex;
  const auto run = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next.store(count);
      const std::scoped_lock lock(error_mutex);
      if (!first_error) first_error = std::current_exception();
    }
  };
  std::vector<std::jthread> helpers;
  for (size_t t = 1; t < threads; ++t) helpers.emplace_back(run);
  run();
  helpers.clear();  // joins
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace openwork
