// httplib makes tables at the first request that it reads, under a guard that ThreadSanitizer does not see: httplib is not
// compiled with it. So one request is served, and its server's threads are waited for, before any test starts.
#include <gtest/gtest.h>

#include "sanitized.h"
#include "serve/served.h"

namespace openwork::serve {
namespace {

class FirstRequest : public testing::Environment {
  void SetUp() override {
    const Served served;
    ASSERT_TRUE(served.client().Get("/"));
  }
};

const testing::Environment* const kFirst =
    kThreadSanitizer ? testing::AddGlobalTestEnvironment(new FirstRequest) : nullptr;

}  // namespace
}  // namespace openwork::serve
