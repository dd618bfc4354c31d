// Training runs of a second or two for command-line tests: a small model with random weights, a few
// documents.
#pragma once
#include <sys/resource.h>

#include <csignal>

#include "cli/command.h"

namespace openwork {

// The committed text as many small documents, so that some can be held out.
inline std::string write_documents(const ScratchFolder& scratch) {
  std::string text = read_file("tests/data/held_out.txt");
  for (size_t mark = 0; (mark = text.find("<|endoftext|>")) != std::string::npos;) text.erase(mark, 13);
  const std::string path = scratch / "documents.jsonl";
  std::ofstream file(path);
  for (size_t at = 0; at + 400 < text.size(); at += 400) {
    std::string part = text.substr(at, 400);
    for (char& letter : part) letter = static_cast<unsigned char>(letter) < 128 ? letter : ' ';
    file << nlohmann::json{{"text", part}}.dump() << "\n";
  }
  return path;
}

inline nlohmann::json small_config() {
  nlohmann::json config = nlohmann::json::parse(read_file("models/openwork-8m/config.json"));
  config.update({{"n_layer", 2}, {"n_head", 2}, {"n_embd", 32}});
  return config;
}

// documents.jsonl, and small/: openwork-8m's tokenizer and a configuration of 2 layers, 2 heads, width 32.
inline void write_small_model(const ScratchFolder& scratch) {
  write_documents(scratch);
  std::filesystem::create_directories(scratch.path() / "small");
  std::ofstream(scratch / "small/config.json") << small_config().dump();
  std::filesystem::copy_file("models/openwork-8m/tokenizer.json", scratch / "small/tokenizer.json");
}

// `arguments`, `more`, and those of the usual options that `more` does not give.
inline std::vector<std::string> complete(std::vector<std::string> arguments,
                                         const std::vector<std::string>& more,
                                         const std::vector<std::pair<std::string, std::string>>& usual) {
  for (const auto& [option, value] : usual) {
    if (std::find(more.begin(), more.end(), option) == more.end())
      arguments.insert(arguments.end(), {option, value});
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// A run of openwork-8m itself.
inline std::vector<std::string> sparsify(const ScratchFolder& scratch, const std::string& out,
                                         const std::vector<std::string>& more) {
  return complete({"sparsify", "openwork-8m", "--data", scratch / "documents.jsonl", "--out", scratch / out,
                   "--quiet", "--held-out", "0.1", "--batch-tokens", "256", "--device", "cpu", "--threads",
                   "1", "--held-out-blocks", "4"},
                  more, {{"--context", "64"}});
}

// A run from nothing by small.json; `more` says with which tokenizer.
inline std::vector<std::string> pretrain(const ScratchFolder& scratch, const std::vector<std::string>& more) {
  return complete({"pretrain", "--config", scratch / "small.json", "--data", scratch / "documents.jsonl",
                   "--out", scratch / "out", "--quiet"},
                  more,
                  {{"--held-out", "0.1"},
                   {"--context", "64"},
                   {"--batch-tokens", "512"},
                   {"--device", "cpu"},
                   {"--threads", "1"},
                   {"--held-out-blocks", "4"}});
}

// A run of the small model; `more` may repeat an option, the last one counts.
inline std::vector<std::string> small_run(const ScratchFolder& scratch, const std::string& out,
                                          const std::vector<std::string>& more) {
  return complete({"sparsify", scratch / "small", "--init", "random", "--data", scratch / "documents.jsonl",
                   "--out", scratch / out},
                  more,
                  {{"--held-out", "0.1"},
                   {"--batch-tokens", "256"},
                   {"--context", "32"},
                   {"--device", "cpu"},
                   {"--threads", "1"},
                   {"--held-out-blocks", "4"},
                   {"--steps", "12"},
                   {"--checkpoint-every", "3"},
                   {"--lr", "1e-3"},
                   {"--log-every", "3"}});
}

inline std::vector<nlohmann::json> read_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// Starts the program in the background; its outputs go to FILE.out and FILE.err. A file may grow to `largest`
// bytes.
inline pid_t start_openwork(const std::vector<std::string>& arguments, const std::string& file,
                            const std::vector<std::string>& environment = {},
                            rlim_t largest = RLIM_INFINITY) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (!freopen((file + ".out").c_str(), "w", stdout) || !freopen((file + ".err").c_str(), "w", stderr))
    _exit(126);
  const rlimit limit{largest, largest};
  setrlimit(RLIMIT_FSIZE, &limit);
  for (const std::string& entry : environment) putenv(strdup(entry.c_str()));
  std::vector<char*> argv = {strdup("openwork")};
  for (const std::string& argument : arguments) argv.push_back(strdup(argument.c_str()));
  argv.push_back(nullptr);
  execv(program_path().c_str(), argv.data());
  _exit(127);
}

// The exit code, 128 + signal for one that was killed.
inline int await(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// True when the file comes to be before the process ends.
inline bool await_file(const std::filesystem::path& file, pid_t child) {
  while (!std::filesystem::exists(file)) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == child)
      return false;
    usleep(1000);
  }
  return true;
}

inline void expect_one_line(const std::string& text, const std::string& words) {
  EXPECT_TRUE(text.starts_with("openwork: error: ")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

}  // namespace openwork
