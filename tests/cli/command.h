// Running the program as a person does, and looking at what it says.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace openwork {

inline std::string program_path() {
  const char* path = std::getenv("OPENWORK_PROGRAM");
  return path ? path : "build/openwork";
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A folder that is gone after the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "openwork-cli-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct ProgramResult {
  int exit_code = -1;
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// `environment` entries are NAME=VALUE, added to this process's own.
inline ProgramResult run_openwork(const std::vector<std::string>& arguments,
                                  const std::vector<std::string>& environment = {}) {
  const ScratchFolder scratch;
  const std::string out = scratch / "out", err = scratch / "err";
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen(out.c_str(), "w", stdout) || !freopen(err.c_str(), "w", stderr) ||
        !freopen("/dev/null", "r", stdin))
      _exit(126);
    for (const std::string& entry : environment) putenv(strdup(entry.c_str()));
    std::vector<char*> argv = {strdup("openwork")};
    for (const std::string& argument : arguments) argv.push_back(strdup(argument.c_str()));
    argv.push_back(nullptr);
    execv(program_path().c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(out), read_file(err)};
}

// The contract of an error: its exit code, one line `openwork: error: WHAT; WHERE; WHAT TO DO`, nothing on
// standard output that looks like a result.
inline void expect_refusal(const std::vector<std::string>& arguments, const std::string& message,
                           int exit_code = 2) {
  const ProgramResult result = run_openwork(arguments);
  std::string command;
  for (const std::string& argument : arguments) command += " " + argument.substr(0, 60);
  EXPECT_EQ(result.exit_code, exit_code) << command << "\n" << result.err;
  EXPECT_TRUE(result.err.starts_with("openwork: error: ")) << command << "\n" << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << command << "\n" << result.err;
  EXPECT_GE(std::count(result.err.begin(), result.err.end(), ';'), 2) << command << "\n" << result.err;
  EXPECT_NE(result.err.find(message), std::string::npos) << command << "\n" << result.err;
}

}  // namespace openwork
