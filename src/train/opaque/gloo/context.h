// Stands in for Gloo's own header, which torch's wheels leave out although their c10d headers include it.
// Gloo itself is inside libtorch_cpu; openwork calls it through c10d alone, so the names suffice and nothing
// here is ever defined. Not used where a libtorch brings Gloo's headers.
#pragma once
#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
