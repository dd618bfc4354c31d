#include "transcode/transcoder_config.h"

#include "io/mapped_file.h"
#include "transcode/transcoder_header.h"

namespace openwork {

Transcoders read_transcoder_config(const std::filesystem::path& file) {
  TranscoderHeader header = read_transcoder_header(MappedFile(file).text(), file.string());
  Transcoders transcoders;
  transcoders.kind = header.cross_layer ? TranscoderKind::kCrossLayer : TranscoderKind::kPerLayer;
  transcoders.input = header.reads_residual ? TranscoderInput::kResidual : TranscoderInput::kNormed;
  transcoders.model = std::move(header.model);
  transcoders.model_sha256 = std::move(header.model_sha256);
  transcoders.scan = std::move(header.scan);
  return transcoders;
}

std::string write_transcoder_config(const Transcoders& transcoders) {
  return write_transcoder_header({.cross_layer = transcoders.kind == TranscoderKind::kCrossLayer,
                                  .reads_residual = transcoders.input == TranscoderInput::kResidual,
                                  .model = transcoders.model,
                                  .model_sha256 = transcoders.model_sha256,
                                  .scan = transcoders.scan});
}

const char* kind_name(TranscoderKind kind) {
  return kind == TranscoderKind::kPerLayer ? "plt" : "clt";
}

const char* input_name(TranscoderInput input) {
  return input == TranscoderInput::kResidual ? "residual" : "normed";
}

}  // namespace openwork
