// Any bytes as a pickle inside an otherwise sound PyTorch file, which a fuzzer would take long to put
// together.
#include <string>

#include "fuzz/fuzz_input.h"
#include "io/pth.h"
#include "io/pth_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  const std::string file =
      make_zip({{"m/data.pkl", std::string(as_text(data, size))}, {"m/data/0", std::string(256, '\1')}});
  return expect_error_at_worst([&] { read_listing(parse_pth(std::as_bytes(std::span(file)), "input")); });
}
