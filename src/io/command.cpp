// posix_spawn with an argument vector: no shell reads what is run.
#include "io/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"

extern char** environ;

namespace openwork {
namespace {

constexpr std::streamoff kOutputLimit = 64 << 10;

std::string read_tail(const std::filesystem::path& log) {
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  file.seekg(size > kOutputLimit ? size - kOutputLimit : 0);
  return {std::istreambuf_iterator<char>(file), {}};
}

int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t process = 0;
  const int error = posix_spawnp(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT || error == EACCES) return {.found = false};
  if (error != 0)
    fail(fmt::format("cannot start it: {}", std::strerror(error)), arguments[0], "run the command again");
  CommandResult result;
  result.exit_code = wait_for(process);
  result.output = read_tail(log);
  return result;
}

}  // namespace openwork
