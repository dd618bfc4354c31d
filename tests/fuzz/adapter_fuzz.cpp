// Any JSON as an adapter_config.json: a finite scale and a gate, or one line.
#include "model/adapter_config.h"

#include <cmath>

#include "fuzz/fuzz_input.h"
#include "io/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  return expect_error_at_worst([&] {
    const AdapterConfig config = read_adapter_config(parse_json(as_text(data, size), "input"), "input");
    if (!std::isfinite(config.scale_of("transformer.h.0.attn.c_attn"))) std::abort();
    config.is_whole("transformer.h.0.attn.c_attn.weight");
  });
}
