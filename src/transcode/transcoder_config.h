// config.yaml of a transcoder folder (transcoder_header.h) as transcoders without weights, and the names of what it says.
#pragma once
#include <filesystem>
#include <string>

#include "transcode/transcoder.h"

namespace openwork {

// Everything but the weights: kind, input, model, hash, scan.
Transcoders read_transcoder_config(const std::filesystem::path& file);
std::string write_transcoder_config(const Transcoders& transcoders);

const char* kind_name(TranscoderKind kind);     // "plt", "clt"
const char* input_name(TranscoderInput input);  // "residual", "normed"

}  // namespace openwork
