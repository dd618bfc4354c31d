#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace openwork {
namespace {

TEST(ParallelFor, CallsEveryIndexOnce) {
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    std::vector<std::atomic<int>> seen(1000);
    parallel_for(seen.size(), [&](size_t i) { ++seen[i]; });
    for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
  }
  set_thread_count(0);
}

TEST(ParallelFor, RethrowsTheFirstError) {
  set_thread_count(4);
  EXPECT_THROW(parallel_for(100,
                            [](size_t i) {
                              if (i == 13) throw std::runtime_error("13");
                            }),
               std::runtime_error);
  set_thread_count(0);
}

TEST(ThreadCount, IsWhatIsSetElseWhatOpenMpIsTold) {
  const char* before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before ? before : "";
  setenv("OMP_NUM_THREADS", "3", 1);
  EXPECT_EQ(thread_count(), 3);
  set_thread_count(5);
  EXPECT_EQ(thread_count(), 5);
  set_thread_count(0);
  EXPECT_EQ(thread_count(), 3);
  setenv("OMP_NUM_THREADS", "many", 1);
  EXPECT_GE(thread_count(), 1);
  before ? setenv("OMP_NUM_THREADS", kept.c_str(), 1) : unsetenv("OMP_NUM_THREADS");
}

TEST(ParallelFor, TakesNothingToDo) {
  parallel_for(0, [](size_t) { FAIL(); });
}

}  // namespace
}  // namespace openwork
