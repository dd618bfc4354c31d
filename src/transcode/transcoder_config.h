// config.yaml of a transcoder folder: flat `key: value` lines, as circuit-tracer's own are, of which this
// reads plain and quoted texts, comments, and lists (`- item` lines below their key), and nothing else of
// YAML.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "transcode/transcoder.h"

namespace openwork {

using FlatYaml = std::map<std::string, std::vector<std::string>>;  // a plain value is a list of one

// Fails in one line, naming the line, on what is not of that form.
FlatYaml parse_flat_yaml(std::string_view text, const std::string& origin);

// Everything but the weights: kind, input, model, hash, scan.
Transcoders read_transcoder_config(const std::filesystem::path& file);
std::string write_transcoder_config(const Transcoders& transcoders);

const char* kind_name(TranscoderKind kind);     // "plt", "clt"
const char* input_name(TranscoderInput input);  // "residual", "normed"

}  // namespace openwork
