#include "train/stop.h"

#include <utility>

namespace openwork {
namespace {

volatile std::sig_atomic_t seen_signal = 0;
std::function<int()> ask_host;

void note_signal(int signal) {
  seen_signal = signal;
}

}  // namespace

void ask_host_to_stop(std::function<int()> ask) {
  ask_host = std::move(ask);
}

StopSignals::StopSignals() : installed_(!ask_host), before_interrupt_{}, before_terminate_{} {
  seen_signal = 0;
  if (!installed_) return;
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &before_interrupt_);
  sigaction(SIGTERM, &action, &before_terminate_);
}

StopSignals::~StopSignals() {
  if (!installed_) return;
  sigaction(SIGINT, &before_interrupt_, nullptr);
  sigaction(SIGTERM, &before_terminate_, nullptr);
}

int StopSignals::seen() const {
  if (ask_host && seen_signal == 0) seen_signal = ask_host();
  return seen_signal;
}

}  // namespace openwork
