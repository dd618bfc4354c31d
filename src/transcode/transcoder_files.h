// Transcoder folders, in the layout circuit-tracer reads (docs/formats.md):
//   config.yaml               model_name, model_kind: transcoder_set | cross_layer_transcoder,
//                             feature_input_hook, feature_output_hook, scan, model_sha256
//   per-layer   layer_N.safetensors    W_enc [F, D], b_enc [F], W_dec [F, D], b_dec [D],
//                                      activation_function.threshold [F], W_skip [D, D] where there is one
//   cross-layer W_enc_N.safetensors    W_enc_N [F, D], b_enc_N [F], b_dec_N [D], threshold_N [F]
//               W_dec_N.safetensors    W_dec_N [F, layers - N, D]
// A missing threshold is 0 everywhere. 8-bit folders keep the same files and names, with W_enc, W_dec and
// W_skip as I8 and one scale per row beside them (NAME.scales F32, one number for each row of D): number = code *
// scale. `openwork transcode --unpack` turns them into the plain form, which circuit-tracer opens.
#pragma once
#include <filesystem>
#include <string>

#include "transcode/transcoder.h"

namespace openwork {

enum class TranscoderFormat { kFloat32, kEightBit };

// Whether it is a folder of transcoders at all: its configuration is read, and its first file is there. Fails in one
// line as load_transcoders would, before anything large is opened.
void check_transcoder_folder(const std::filesystem::path& folder);

// Both kinds, both formats, and what circuit-tracer itself wrote. Fails in one line naming the file.
Transcoders load_transcoders(const std::filesystem::path& folder, at::Device device = at::kCPU);

// Fails where the folder holds a model: transcoders are not written beside one.
void check_transcoder_place(const std::filesystem::path& folder);

// Each file is whole or absent, config.yaml last; files of another set in the folder go. Fails where the
// folder holds a model.
void save_transcoders(const std::filesystem::path& folder, const Transcoders& transcoders,
                      TranscoderFormat format);

}  // namespace openwork
