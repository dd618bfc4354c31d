// The options of `transcode`, and what they say in plain settings.
#pragma once
#include <optional>
#include <string>

#include "cli/training.h"
#include "transcode/train_transcoders.h"

namespace openwork {

inline constexpr int64_t kUsualContexts = 5;  // of a feature's description

struct TranscodeVerb {
  TrainingOptions training;
  TranscodeOptions transcode;
  std::string kind = "plt", input = "normed", activation = "batchtopk", scan, unpack, measure, details, start;
  int bits = 32;
  int64_t curve_blocks = 64;        // of --measure
  std::optional<int64_t> describe;  // a run: kUsualContexts unless said; --measure: none unless said
};

void add_transcoder_options(CLI::App& verb, TranscodeVerb& options);

// Fails where something that the work asked for needs is missing: before any of it.
// And on options that would do nothing there.
void check_transcode_verb(const CLI::App& verb, const TranscodeVerb& options);

// What the options say about a run, in options.transcode.
void settle_transcode_options(TranscodeVerb& options, const ModelConfig& config);

}  // namespace openwork
