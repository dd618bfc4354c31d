#include "transcode/transcoder_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/safe_files.h"
#include "io/tensor_file.h"
#include "model/save.h"
#include "model/weights.h"
#include "transcode/transcoder_config.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr const char* kConfigFile = "config.yaml";
constexpr const char* kScales = ".scales";
constexpr const char* kThreshold = "activation_function.threshold";

// One row's largest number is 127 codes; a row of zeros keeps scale 0.
struct RoundedRows {
  Tensor codes;   // as the matrix, int8
  Tensor scales;  // as the matrix without its last dimension, float32
};
RoundedRows round_rows(const Tensor& matrix) {
  const Tensor scales = matrix.abs().amax(-1) / 127;
  const Tensor codes =
      (matrix / scales.clamp_min(1e-30).unsqueeze(-1)).round().clamp(-127, 127).to(at::kChar);
  return {codes, scales};
}

class LayerFile {
 public:
  explicit LayerFile(const fs::path& path) : file_(open_weights(path)), reader_(file_, at::kFloat, true) {}

  bool has(const std::string& name) const { return reader_.has(name); }

  // Float32 of the shape wanted; a size of -1 may be any.
  Tensor read(const std::string& name, const std::vector<int64_t>& shape) const {
    const TensorEntry& entry = file_->at(name);
    bool fits = entry.shape.size() == shape.size();
    for (size_t n = 0; fits && n < shape.size(); ++n) {
      fits = entry.shape[n] > 0 && (shape[n] < 0 || entry.shape[n] == shape[n]);
    }
    if (!fits) {
      fail_input(fmt::format("tensor '{}' has shape [{}] where [{}] is wanted", name,
                             fmt::join(entry.shape, ", "), fmt::join(shape, ", ")),
                 file_->origin(), "train or fetch the transcoders again");
    }
    return entry.dtype == DType::kI8 ? read_rounded(entry) : reader_.read(name);
  }

 private:
  Tensor read_rounded(const TensorEntry& entry) const {
    Tensor codes = at::empty(entry.shape, at::kChar);
    read_bytes(entry, {static_cast<std::byte*>(codes.data_ptr()), codes.nbytes()});
    std::vector<int64_t> rows = entry.shape;
    rows.pop_back();
    return codes.to(at::kFloat) * read(entry.name + kScales, rows).unsqueeze(-1);
  }

  std::shared_ptr<const TensorFile> file_;
  WeightReader reader_;
};

LayerTranscoder read_per_layer(const fs::path& folder, int64_t layer) {
  const LayerFile file(folder / fmt::format("layer_{}.safetensors", layer));
  LayerTranscoder result;
  result.encoder = file.read("W_enc", {-1, -1});
  const int64_t F = result.encoder.size(0), D = result.encoder.size(1);
  result.encoder_bias = file.read("b_enc", {F});
  result.decoder = file.read("W_dec", {F, D}).unsqueeze(1);
  result.decoder_bias = file.read("b_dec", {D});
  result.threshold = file.has(kThreshold) ? file.read(kThreshold, {F}) : at::zeros({F});
  if (file.has("W_skip")) result.skip = file.read("W_skip", {D, D});
  return result;
}

LayerTranscoder read_cross_layer(const fs::path& folder, int64_t layer, int64_t layers) {
  const std::string n = std::to_string(layer);
  const LayerFile file(folder / fmt::format("W_enc_{}.safetensors", layer));
  LayerTranscoder result;
  result.encoder = file.read("W_enc_" + n, {-1, -1});
  const int64_t F = result.encoder.size(0), D = result.encoder.size(1);
  result.encoder_bias = file.read("b_enc_" + n, {F});
  result.decoder_bias = file.read("b_dec_" + n, {D});
  result.threshold = file.has("threshold_" + n) ? file.read("threshold_" + n, {F}) : at::zeros({F});
  result.decoder = LayerFile(folder / fmt::format("W_dec_{}.safetensors", layer))
                       .read("W_dec_" + n, {F, layers - layer, D});
  return result;
}

int64_t count_layers(const fs::path& folder, TranscoderKind kind) {
  const char* const stem = kind == TranscoderKind::kPerLayer ? "layer" : "W_enc";
  int64_t layers = 0;
  while (fs::exists(folder / fmt::format("{}_{}.safetensors", stem, layers))) ++layers;
  if (layers == 0) {
    fail_input(fmt::format("no {}_0.safetensors", stem), folder.string(),
               "train or fetch the transcoders again");
  }
  return layers;
}

void move_to(LayerTranscoder& layer, const at::Device& device) {
  for (Tensor* tensor : {&layer.encoder, &layer.encoder_bias, &layer.threshold, &layer.decoder,
                         &layer.decoder_bias, &layer.skip}) {
    if (tensor->defined()) *tensor = tensor->to(device).contiguous();
  }
}

void add_matrix(NamedTensors& tensors, const std::string& name, const Tensor& matrix,
                TranscoderFormat format) {
  const Tensor host = matrix.detach().cpu().to(at::kFloat).contiguous();
  if (format == TranscoderFormat::kFloat32) return tensors.push_back({name, host});
  const RoundedRows rounded = round_rows(host);
  tensors.emplace_back(name, rounded.codes);
  tensors.emplace_back(name + kScales, rounded.scales);
}

void add_vector(NamedTensors& tensors, const std::string& name, const Tensor& vector) {
  tensors.emplace_back(name, vector.detach().cpu().to(at::kFloat).contiguous());
}

void write_per_layer(const fs::path& folder, int64_t layer, const LayerTranscoder& transcoder,
                     TranscoderFormat format) {
  NamedTensors tensors;
  add_matrix(tensors, "W_enc", transcoder.encoder, format);
  add_vector(tensors, "b_enc", transcoder.encoder_bias);
  add_matrix(tensors, "W_dec", transcoder.decoder.squeeze(1), format);
  add_vector(tensors, "b_dec", transcoder.decoder_bias);
  add_vector(tensors, kThreshold, transcoder.threshold);
  if (transcoder.skip.defined()) add_matrix(tensors, "W_skip", transcoder.skip, format);
  save_tensors(folder / fmt::format("layer_{}.safetensors", layer), tensors);
}

void write_cross_layer(const fs::path& folder, int64_t layer, const LayerTranscoder& transcoder,
                       TranscoderFormat format) {
  const std::string n = std::to_string(layer);
  if (transcoder.skip.defined()) {
    fail_input("a cross-layer transcoder with a skip", folder.string(), "the layout has no place for one");
  }
  NamedTensors tensors, decoder;
  add_matrix(tensors, "W_enc_" + n, transcoder.encoder, format);
  add_vector(tensors, "b_enc_" + n, transcoder.encoder_bias);
  add_vector(tensors, "b_dec_" + n, transcoder.decoder_bias);
  add_vector(tensors, "threshold_" + n, transcoder.threshold);
  add_matrix(decoder, "W_dec_" + n, transcoder.decoder, format);
  save_tensors(folder / fmt::format("W_enc_{}.safetensors", layer), tensors);
  save_tensors(folder / fmt::format("W_dec_{}.safetensors", layer), decoder);
}

// What a set with more layers, or of the other kind, has left behind.
void remove_others(const fs::path& folder, TranscoderKind kind, size_t layers) {
  std::error_code ignored;
  const auto remove_from = [&](const char* stem, size_t first) {
    for (size_t n = first;; ++n) {
      if (!fs::remove(folder / fmt::format("{}_{}.safetensors", stem, n), ignored)) return;
    }
  };
  const bool per_layer = kind == TranscoderKind::kPerLayer;
  remove_from("layer", per_layer ? layers : 0);
  remove_from("W_enc", per_layer ? 0 : layers);
  remove_from("W_dec", per_layer ? 0 : layers);
}

Transcoders read_folder_config(const fs::path& folder) {
  if (!fs::exists(folder / kConfigFile)) {
    fail_input("no config.yaml", folder.string(), "name a transcoder folder (openwork transcode makes one)");
  }
  return read_transcoder_config(folder / kConfigFile);
}

}  // namespace

void check_transcoder_folder(const fs::path& folder) {
  count_layers(folder, read_folder_config(folder).kind);
}

Transcoders load_transcoders(const fs::path& folder, at::Device device) {
  Transcoders transcoders = read_folder_config(folder);
  const int64_t layers = count_layers(folder, transcoders.kind);
  for (int64_t n = 0; n < layers; ++n) {
    LayerTranscoder layer = transcoders.kind == TranscoderKind::kPerLayer
                                ? read_per_layer(folder, n)
                                : read_cross_layer(folder, n, layers);
    if (n > 0 && layer.encoder.size(1) != transcoders.layers.front().encoder.size(1)) {
      fail_input(fmt::format("layer {} is {} wide, layer 0 {}", n, layer.encoder.size(1),
                             transcoders.layers.front().encoder.size(1)),
                 folder.string(), "train or fetch the transcoders again");
    }
    move_to(layer, device);
    transcoders.layers.push_back(std::move(layer));
  }
  return transcoders;
}

void check_transcoder_place(const fs::path& folder) {
  if (fs::exists(folder / "config.json") || fs::exists(folder / "model.safetensors"))
    fail_input("the folder holds a model", folder.string(), "choose another --out");
}

void save_transcoders(const fs::path& folder, const Transcoders& transcoders, TranscoderFormat format) {
  check_transcoder_place(folder);
  make_folder(folder);
  for (size_t n = 0; n < transcoders.layers.size(); ++n) {
    const auto write = transcoders.kind == TranscoderKind::kPerLayer ? write_per_layer : write_cross_layer;
    write(folder, static_cast<int64_t>(n), transcoders.layers[n], format);
  }
  remove_others(folder, transcoders.kind, transcoders.layers.size());
  write_text_file(folder / kConfigFile, write_transcoder_config(transcoders));
}

}  // namespace openwork
