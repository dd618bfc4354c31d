#include "train/stop.h"

namespace openwork {
namespace {

volatile std::sig_atomic_t seen_signal = 0;

void note_signal(int signal) {
  seen_signal = signal;
}

}  // namespace

StopSignals::StopSignals() {
  seen_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &before_interrupt_);
  sigaction(SIGTERM, &action, &before_terminate_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &before_interrupt_, nullptr);
  sigaction(SIGTERM, &before_terminate_, nullptr);
}

int StopSignals::seen() const {
  return seen_signal;
}

}  // namespace openwork
