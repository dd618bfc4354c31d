// config.yaml of a transcoder folder as plain data, without torch: flat `key: value` lines, as circuit-tracer's own are,
// of which this reads plain and quoted texts, comments, and lists (`- item` lines below their key), and nothing else of
// YAML.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace openwork {

using FlatYaml = std::map<std::string, std::vector<std::string>>;  // a plain value is a list of one

// Fails in one line, naming the line, on what is not of that form.
FlatYaml parse_flat_yaml(std::string_view text, const std::string& origin);

// Everything about a set of transcoders but their weights (transcoder.h says what they are).
struct TranscoderHeader {
  bool cross_layer = false;     // else a transcoder for each layer
  bool reads_residual = false;  // else the normed stream
  std::string model, model_sha256, scan;
};

// Fails in one line naming `origin` on what it does not know.
TranscoderHeader read_transcoder_header(std::string_view text, const std::string& origin);
std::string write_transcoder_header(const TranscoderHeader& header);

}  // namespace openwork
