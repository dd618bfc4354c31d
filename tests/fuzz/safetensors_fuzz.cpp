// Any bytes as a safetensors file: listed and read whole, or refused in one line.
#include "io/safetensors.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  return expect_error_at_worst([&] { read_listing(parse_safetensors(as_bytes(data, size), "input")); });
}
