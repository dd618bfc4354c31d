// What transcoders are worth, and the run that made them, as JSON (report.json, docs/json.md) and as lines.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "transcode/measure_transcoders.h"
#include "transcode/train_transcoders.h"

namespace openwork {

nlohmann::json to_json(const TranscoderQuality& quality);
std::string to_text(
    const TranscoderQuality& quality);  // a table by layer, then losses, then what they are of

// A run of `transcode` with what came of it; the protocol is the caller's to add.
struct TranscoderRun {
  std::string model, command;
  TranscodeOptions options;
  int bits = 32;  // of the saved matrices
  int64_t context = 0, batch_tokens = 0;
  std::string dtype;  // the model's while training
  uint64_t seed = 0;
  nlohmann::json data;  // what it was trained on
  LoopResult training;
  TranscoderQuality quality;
};
nlohmann::json to_json(const TranscoderRun& run);
std::string describe_training(const LoopResult& training);

}  // namespace openwork
