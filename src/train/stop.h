// SIGINT and SIGTERM as a wish, not an end: while a StopSignals lives, the first one is noted for the run to
// see after its step (it then writes a checkpoint and leaves with 128 + signal); a second one ends the
// program at once.
#pragma once
#include <csignal>
#include <functional>

namespace openwork {

// From now on signals are left to the process's host (a Python interpreter has handlers of its own), and seen()
// asks it: the signal's number where it was told to stop, else 0. An empty function takes signals back.
void ask_host_to_stop(std::function<int()> ask);

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int seen() const;  // the signal's number; 0 while none has come

 private:
  bool installed_;
  struct sigaction before_interrupt_, before_terminate_;
};

}  // namespace openwork
