#include "base/progress_line.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace openwork {
namespace {

TEST(SecondsLeft, GoByWhatWasDoneSinceTheStart) {
  EXPECT_EQ(seconds_left(10, 20, 0, 100), 40);
  EXPECT_EQ(seconds_left(10, 60, 50, 100), 40) << "50 were done before: 10 took 10 s";
  EXPECT_EQ(seconds_left(10, 100, 50, 100), 0);
}

TEST(SecondsLeft, AreUnknownWhileNothingIsDone) {
  EXPECT_EQ(seconds_left(10, 0, 0, 100), std::nullopt);
  EXPECT_EQ(seconds_left(10, 50, 50, 100), std::nullopt);
  EXPECT_EQ(seconds_left(10, 101, 0, 100), std::nullopt) << "more than there was to do";
}

TEST(ProgressLine, HasABarWhereThereIsRoomAndIsNeverWider) {
  const ProgressState state{
      .name = "eval m", .unit = " blocks", .detail = "loss 3.281", .done = 20, .total = 50};
  EXPECT_EQ(progress_line(state, 3.0, 100),
            "eval m [########------------] 20 / 50 blocks (40 %), 3 s left, loss 3.281");
  EXPECT_EQ(progress_line(state, std::nullopt, 60), "eval m: 20 / 50 blocks (40 %), loss 3.281");
  EXPECT_EQ(progress_line(state, 3.0, 20), "eval m: 20 / 50 bloc");
  const ProgressState unknown{.name = "tokenise", .unit = " tokens", .detail = "", .done = 7, .total = 0};
  EXPECT_EQ(progress_line(unknown, std::nullopt, 80), "tokenise: 7 tokens");
  const ProgressState marks{.name = "·é·", .unit = "", .detail = "", .done = 1, .total = 0};
  EXPECT_EQ(progress_line(marks, std::nullopt, 2), "·é") << "characters, not bytes";
}

TEST(ProgressWatcher, IsToldOfWorkAndOfItsEnd) {
  std::vector<std::string> told;
  watch_progress([&](const ProgressState& state) {
    told.push_back(std::string(state.name) + (state.finished ? " ends" : " goes on"));
  });
  const auto start = std::chrono::steady_clock::now();
  {
    Progress progress("count", 1000);
    for (uint64_t n = 0; n < 1000; ++n) progress.set(n);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    progress.set(1000);
  }
  const auto passed = std::chrono::steady_clock::now() - start;
  watch_progress({});
  ASSERT_GE(told.size(), 2U);
  EXPECT_EQ(told.front(), "count goes on");
  EXPECT_EQ(told.back(), "count ends");
  EXPECT_LE(told.size() - 1, static_cast<size_t>(passed / std::chrono::milliseconds(50))) << "too often";
}

TEST(ProgressWatcher, EndsTheWorkByThrowing) {
  watch_progress([](const ProgressState&) { throw std::runtime_error("enough"); });
  const auto work = [] {
    Progress progress("count", 10);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    progress.set(1);
  };
  EXPECT_THROW(work(), std::runtime_error);
  watch_progress({});
}

}  // namespace
}  // namespace openwork
