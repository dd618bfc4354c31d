// `openwork serve` as a person starts and stops it.
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "cli/command.h"

namespace openwork {
namespace {

using namespace std::chrono_literals;

// The program in the background, until it is told to stop.
class RunningServer {
 public:
  explicit RunningServer(std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), {"serve", "--port", "0"});
    const std::string out = scratch_ / "out";
    child_ = fork();
    if (child_ == 0) {
      if (!freopen(out.c_str(), "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(126);
      const std::string program = program_path();
      std::vector<char*> argv = {strdup(program.c_str())};
      for (const std::string& argument : arguments) argv.push_back(strdup(argument.c_str()));
      argv.push_back(nullptr);
      execv(program.c_str(), argv.data());
      _exit(127);
    }
    for (int tries = 0; tries < 1200 && port_ == 0; ++tries) {
      std::this_thread::sleep_for(50ms);
      const std::string line = read_file(out);
      const size_t colon = line.rfind(':');
      if (line.ends_with("/\n") && colon != std::string::npos) port_ = std::atoi(line.c_str() + colon + 1);
    }
  }
  ~RunningServer() {
    if (child_ > 0) kill(child_, SIGKILL), waitpid(child_, nullptr, 0);
  }

  int port() const { return port_; }
  int stop(int signal) {
    kill(child_, signal);
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  ScratchFolder scratch_;
  pid_t child_ = -1;
  int port_ = 0;
};

TEST(ServeVerb, AnswersAndEndsWithZeroAtSigterm) {
  RunningServer server;
  ASSERT_GT(server.port(), 0);
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(60);
  const auto models = client.Get("/api/models");
  ASSERT_TRUE(models);
  EXPECT_EQ(nlohmann::json::parse(models->body)["models"].size(), 2u);
  const auto run = client.Post("/api/run", R"({"prompt": "Once upon a"})", "application/json");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->status, 200);
  const auto job = client.Post("/api/circuit", R"({"task": "copy"})", "application/json");
  EXPECT_EQ(job->status, 202);
  EXPECT_EQ(server.stop(SIGTERM), 0);
}

TEST(ServeVerb, EndsWithZeroAtSigintWhileAClientStaysConnected) {
  RunningServer server({"openwork-8m"});
  ASSERT_GT(server.port(), 0);
  httplib::Client client("127.0.0.1", server.port());
  client.set_keep_alive(true);
  ASSERT_TRUE(client.Get("/"));
  EXPECT_EQ(server.stop(SIGINT), 0);
}

TEST(ServeVerb, RefusesWhatItCannotServe) {
  const ProgramResult absent = run_openwork({"serve", "no-such-model"});
  EXPECT_EQ(absent.exit_code, 2);
  const ProgramResult run = run_openwork({"serve", "--run", "/no/such/folder", "--port", "0"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("--run"), std::string::npos);
  EXPECT_EQ(run_openwork({"serve", "--host", "203.0.113.1", "--port", "0"}).exit_code, 2);
  EXPECT_EQ(run_openwork({"serve", "openwork-8m", "openwork-8m", "--port", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace openwork
