// Running another program by its name and arguments, never through a shell.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace openwork {

struct CommandResult {
  bool found = true;        // false: there is no such program in PATH
  int exit_code = 0;        // 128 + signal where a signal ended it
  std::string output = {};  // standard output and error together, the last 64 KiB
};

// Waits for `arguments[0]` (looked up in PATH) to end. It reads nothing; what it prints goes to `log`, a
// file.
CommandResult run_command(const std::vector<std::string>& arguments, const std::filesystem::path& log);

}  // namespace openwork
