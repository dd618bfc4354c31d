// Any bytes as features.json.zst, packed or plain: descriptions of the documented form, or one line.
#include "fuzz/fuzz_files.h"
#include "transcode/description_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  static const InputFile file("features.json.zst");
  file.write(data, size);
  return expect_error_at_worst([&] {
    const nlohmann::json read = read_descriptions_json(file.path());
    for (const nlohmann::json& layer : read.at("layers")) {
      for (const nlohmann::json& feature : layer) {
        for (const nlohmann::json& context : feature.at("contexts")) {
          const auto peak = context.at("peak").get<size_t>();
          if (peak >= context.at("tokens").size() || peak >= context.at("activations").size()) std::abort();
        }
      }
    }
  });
}
