// Errors as people see them: one line, `WHAT; WHERE; WHAT TO DO`, and the exit code they end the program with.
// Throw with fail_input (the caller's input is at fault: exit 2) or fail (anything else: exit 1).
// The program's main prints `openwork: error: ` and the line, never a stack trace.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace openwork {

class Error : public std::runtime_error {
 public:
  enum class Kind { kInput = 2, kFailure = 1 };  // the value is the exit code

  Error(Kind kind, std::string_view what, std::string_view where, std::string_view advice);

  Kind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  Kind kind_;
};

// The three parts of the line: what is wrong (with the value seen), where (file, tensor, option), and
// the next thing to try. Control characters are shown escaped, so that the line stays one line.
[[noreturn]] void fail_input(std::string_view what, std::string_view where, std::string_view advice);
[[noreturn]] void fail(std::string_view what, std::string_view where, std::string_view advice);

// `text` with control characters and invalid UTF-8 as \xNN; at most `limit` bytes, then "...".
// For names and values that come out of untrusted files.
std::string printable(std::string_view text, size_t limit = 200);

}  // namespace openwork
