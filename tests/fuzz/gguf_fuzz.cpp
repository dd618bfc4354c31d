// Any bytes as a gguf file: listed and read whole, or refused in one line.
#include "io/gguf.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  return expect_error_at_worst([&] { read_listing(parse_gguf(as_bytes(data, size), "input")); });
}
