// Transcoder folders, in the layout circuit-tracer reads (docs/formats.md):
//   config.yaml               model_name, model_kind: transcoder_set | cross_layer_transcoder,
//                             feature_input_hook, feature_output_hook, scan, model_sha256
//   per-layer   layer_N.safetensors    W_enc [F, D], b_enc [F], W_dec [F, D], b_dec [D],
//                                      activation_function.threshold [F], W_skip [D, D] where there is one
//   cross-layer W_enc_N.safetensors    W_enc_N [F, D], b_enc_N [F], b_dec_N [D], threshold_N [F]
//               W_dec_N.safetensors    W_dec_N [F, layers - N, D]
// A missing threshold is 0 everywhere. Rounded folders keep the same files, with one scale per row of W_enc, W_dec and
// W_skip beside codes (NAME.scales F32, one number for each row of D): number = code * scale. Of 8 bits the codes are I8
// under the matrix's own name; of B = 4 to 7 bits they are NAME.codesB, U8 [..., ceil(D B / 8)]: 2^(B - 1) added to each,
// packed as delta_format.h packs a row. `openwork transcode --unpack` turns both into the plain form, which
// circuit-tracer opens.
#pragma once
#include <filesystem>
#include <string>

#include "transcode/transcoder.h"

namespace openwork {

// Bits of a saved matrix's numbers: 4 to 8 with a scale per row, or all 32 of a float.
inline constexpr int kFewestBits = 4, kByteBits = 8, kPlainBits = 32;

// Whether it is a folder of transcoders at all: its configuration is read, and its first file is there. Fails in one
// line as load_transcoders would, before anything large is opened.
void check_transcoder_folder(const std::filesystem::path& folder);

// Both kinds, all formats, and what circuit-tracer itself wrote. Fails in one line naming the file.
Transcoders load_transcoders(const std::filesystem::path& folder, at::Device device = at::kCPU);

// Fails where the folder holds a model: transcoders are not written beside one.
void check_transcoder_place(const std::filesystem::path& folder);

// Each file is whole or absent, config.yaml last; files of another set in the folder go. Fails where the
// folder holds a model.
void save_transcoders(const std::filesystem::path& folder, const Transcoders& transcoders, int bits);

}  // namespace openwork
