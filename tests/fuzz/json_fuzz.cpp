// Any bytes as JSON and as an index of shards: read as nlohmann's own parser reads it, or refused in one
// line.
#include "io/json.h"

#include "fuzz/fuzz_input.h"
#include "io/shards.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  const std::string_view text = as_text(data, size);
  expect_error_at_worst([&] { parse_shard_index(text, "input"); });
  return expect_error_at_worst([&] {
    if (parse_json(text, "input") != nlohmann::json::parse(text)) std::abort();
  });
}
