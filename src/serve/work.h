// Long work as seen by those who do it: they say how far they are, and are stopped there where nobody wants it any
// more.
#pragma once
#include <cstdint>
#include <string>

namespace openwork::serve {

// Thrown out of tell.
struct WorkCancelled {};

class Work {
 public:
  virtual ~Work() = default;
  // `done` of `all` (0: unknown) of a stage, between two passes.
  virtual void tell(const std::string& stage, uint64_t done, uint64_t all) = 0;
};

// Work that nobody watches.
class UnwatchedWork : public Work {
 public:
  void tell(const std::string&, uint64_t, uint64_t) override {}
};

}  // namespace openwork::serve
