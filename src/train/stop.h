// SIGINT and SIGTERM as a wish, not an end: while a StopSignals lives, the first one is noted for the run to
// see after its step (it then writes a checkpoint and leaves with 128 + signal); a second one ends the
// program at once.
#pragma once
#include <csignal>

namespace openwork {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int seen() const;  // the signal's number; 0 while none has come

 private:
  struct sigaction before_interrupt_, before_terminate_;
};

}  // namespace openwork
