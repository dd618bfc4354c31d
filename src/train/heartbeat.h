// Notices a rank that has gone silent (a machine that is down, a process that hangs), which no closed
// connection tells. Every rank counts its own beats in the job's store from a thread of its own, and watches
// the others' counts; where one stands still too long, this process ends with one line and exit code 1, even
// where its main thread waits inside a GPU library. The store is served by one of them, the first rank, and asking
// it may itself wait for ever: a second thread, which asks nothing, sees that no answer came.
#pragma once
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>

namespace c10d {
class Store;
}  // namespace c10d

namespace openwork {

class Heartbeat {
 public:
  // `store`: a connection of the heartbeat's own.
  Heartbeat(c10::intrusive_ptr<c10d::Store> store, int rank, int count, std::chrono::milliseconds timeout);
  ~Heartbeat();  // stops it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Ends the process: the other ranks cannot be reached and threads of theirs may be waiting inside libraries.
[[noreturn]] void end_lost(const std::string& what, int rank, int count);

}  // namespace openwork
