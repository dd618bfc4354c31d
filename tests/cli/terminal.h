// The program on a terminal.
#pragma once
#include <pty.h>

#include "cli/training_command.h"

namespace openwork {

// What it shows there, with its control characters.
inline std::string run_on_terminal(const std::vector<std::string>& arguments, unsigned short columns) {
  int terminal = 0;
  winsize size{};
  size.ws_row = 40, size.ws_col = columns;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    std::vector<char*> argv = {strdup("openwork")};
    for (const std::string& argument : arguments) argv.push_back(strdup(argument.c_str()));
    argv.push_back(nullptr);
    execv(program_path().c_str(), argv.data());
    _exit(127);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(terminal, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  close(terminal);
  EXPECT_EQ(await(child), 0) << text;
  return text;
}

// Every line as it once stood there: cut at line ends and where a line was taken back.
inline std::vector<std::string> shown_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\n' || text[at] == '\r') {
      lines.emplace_back();
    } else if (text.compare(at, 3, "\033[K") == 0) {
      at += 2;
    } else {
      lines.back() += text[at];
    }
  }
  return lines;
}

}  // namespace openwork
