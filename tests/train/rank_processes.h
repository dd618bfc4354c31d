// Several ranks of one job on this machine: each a child process that meets the others at a free port.
#pragma once
#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "base/error.h"
#include "flow/free_port.h"
#include "train/ranks.h"

namespace openwork {

// Starts `work` in a child for each rank; a child's exit code is what it returns, or 3 where it throws.
inline std::vector<pid_t> start_ranks(int count, const std::function<int(Ranks&)>& work) {
  const uint16_t port = find_free_port();
  std::vector<pid_t> children;
  for (int rank = 0; rank < count; ++rank) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      at::set_num_threads(1);
      try {
        Ranks ranks({rank, count, rank, count, "127.0.0.1", port});
        const int code = work(ranks);
        ranks.leave();
        _exit(code);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        _exit(3);
      }
    }
    children.push_back(child);
  }
  return children;
}

// Exit codes, 128 + signal for those that were killed.
inline std::vector<int> await_ranks(const std::vector<pid_t>& children) {
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

inline std::vector<int> run_ranks(int count, const std::function<int(Ranks&)>& work) {
  return await_ranks(start_ranks(count, work));
}

}  // namespace openwork
