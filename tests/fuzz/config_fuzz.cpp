// Any JSON as a config.json and as the metadata of a GGUF file: a configuration whose parameters can be listed, or one
// line.
#include "fuzz/fuzz_input.h"
#include "io/json.h"
#include "model/architecture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  const std::string_view text = as_text(data, size);
  const auto try_config = [](const nlohmann::json& json) {
    const ModelConfig config = read_model_config(json, "input");
    if (config.layers < 1 || config.heads < 1 || config.width < 1 || config.vocabulary < 1) std::abort();
    if (config.layers <= 64) list_parameters(architecture_named(config.architecture, "input"), config);
  };
  expect_error_at_worst([&] { try_config(config_from_gguf(parse_json(text, "input"), "input")); });
  return expect_error_at_worst([&] { try_config(parse_json(text, "input")); });
}
