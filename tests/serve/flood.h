// Sixty-four clients at once for a while: what went wrong, and how memory went.
//   OPENWORK_FLOOD_SECONDS=30 build/tests/serve_tests --gtest_filter='Flood.*'
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "sanitized.h"

namespace openwork::serve {

inline double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

inline int flood_seconds() {
  const char* seconds = std::getenv("OPENWORK_FLOOD_SECONDS");
  return seconds ? std::atoi(seconds) : 2;
}

// One client's turn; returns how many of its requests went wrong.
using Turn = std::function<int(int client, int turn)>;

// Each client has at least one turn in half the time, in which what is kept grows to its size, then in all of it.
inline void flood(const Turn& take_turn) {
  using Clock = std::chrono::steady_clock;
  constexpr int kClients = 64;
  std::atomic<int> errors{0}, turns{0};
  const auto run = [&](std::chrono::milliseconds time) {
    const Clock::time_point until = Clock::now() + time;
    std::vector<std::thread> clients;
    for (int client = 0; client < kClients; ++client) {
      clients.emplace_back([&, client] {
        int turn = 0;
        do errors += take_turn(client, turn++), ++turns;
        while (Clock::now() < until);
      });
    }
    for (std::thread& client : clients) client.join();
  };
  const std::chrono::milliseconds time = std::chrono::seconds(flood_seconds());
  run(time / 2);
  const double before = resident_megabytes();
  run(time);
  const double after = resident_megabytes();
  std::printf("%d turns of %d clients, %d errors, %.1f MB before and %.1f MB after\n", turns.load(), kClients,
              errors.load(), before, after);
  std::fflush(stdout);  // or a test that forks later says it again
  EXPECT_EQ(errors, 0);
  EXPECT_GE(turns, 2 * kClients);
  // A sanitizer keeps what was freed for a while, and more for itself: it is given more room.
  EXPECT_LT(after, before * 1.2 + (kSanitized ? 120 : 20));
}

}  // namespace openwork::serve
