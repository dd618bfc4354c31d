#include "transcode/transcoder_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/safe_files.h"
#include "io/tensor_file.h"
#include "model/delta_format.h"
#include "model/save.h"
#include "model/weights.h"
#include "transcode/descriptions.h"
#include "transcode/rounded_rows.h"
#include "transcode/transcoder_config.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr const char* kConfigFile = "config.yaml";
constexpr const char* kScales = ".scales";
constexpr const char* kThreshold = "activation_function.threshold";

std::string codes_name(const std::string& name, int bits) {
  return fmt::format("{}.codes{}", name, bits);
}

class LayerFile {
 public:
  explicit LayerFile(const fs::path& path) : file_(open_weights(path)), reader_(file_, at::kFloat, true) {}

  bool has(const std::string& name) const { return reader_.has(name) || packed_bits(name) > 0; }

  // Float32 of the shape wanted; a size of -1 may be any, but not the last.
  Tensor read(const std::string& name, std::vector<int64_t> shape) const {
    const int bits = packed_bits(name);
    if (bits == 0) {
      const TensorEntry& entry = find(name, shape);
      if (entry.dtype != DType::kI8) return reader_.read(name);
      return expand_rows({read_codes(entry, at::kChar), read_scales(name, entry)});
    }
    const int64_t columns = shape.back();
    shape.back() = packed_bytes(columns, bits);
    const TensorEntry& entry = find(codes_name(name, bits), shape);
    return expand_rows({unpack_rows(read_codes(entry, at::kByte), columns, bits), read_scales(name, entry)});
  }

 private:
  // Of codes in whole bytes under a name of their own; 0: the matrix has none.
  int packed_bits(const std::string& name) const {
    for (int bits = kFewestBits; bits < kByteBits; ++bits) {
      if (reader_.has(codes_name(name, bits))) return bits;
    }
    return 0;
  }

  const TensorEntry& find(const std::string& name, const std::vector<int64_t>& shape) const {
    const TensorEntry& entry = file_->at(name);
    bool fits = entry.shape.size() == shape.size();
    for (size_t n = 0; fits && n < shape.size(); ++n) {
      fits = entry.shape[n] > 0 && (shape[n] < 0 || entry.shape[n] == shape[n]);
    }
    if (fits) return entry;
    fail_input(fmt::format("tensor '{}' has shape [{}] where [{}] is wanted", name,
                           fmt::join(entry.shape, ", "), fmt::join(shape, ", ")),
               file_->origin(), "train or fetch the transcoders again");
  }

  Tensor read_codes(const TensorEntry& entry, at::ScalarType type) const {
    const bool bytes = entry.dtype == DType::kI8 || entry.dtype == DType::kU8;
    if (!bytes) {
      fail_input(fmt::format("tensor '{}' is not of bytes", entry.name), file_->origin(),
                 "train or fetch the transcoders again");
    }
    Tensor codes = at::empty(entry.shape, type);
    read_bytes(entry, {static_cast<std::byte*>(codes.data_ptr()), codes.nbytes()});
    return codes;
  }

  // A scale for each row of the matrix whose codes these are.
  Tensor read_scales(const std::string& name, const TensorEntry& codes) const {
    return read(name + kScales, {codes.shape.begin(), codes.shape.end() - 1});
  }

  std::shared_ptr<const TensorFile> file_;
  WeightReader reader_;
};

LayerTranscoder read_per_layer(const fs::path& folder, int64_t layer) {
  const LayerFile file(folder / fmt::format("layer_{}.safetensors", layer));
  LayerTranscoder result;
  result.decoder_bias = file.read("b_dec", {-1});
  const int64_t D = result.decoder_bias.size(0);
  result.encoder = file.read("W_enc", {-1, D});
  const int64_t F = result.encoder.size(0);
  result.encoder_bias = file.read("b_enc", {F});
  result.decoder = file.read("W_dec", {F, D}).unsqueeze(1);
  result.threshold = file.has(kThreshold) ? file.read(kThreshold, {F}) : at::zeros({F});
  if (file.has("W_skip")) result.skip = file.read("W_skip", {D, D});
  return result;
}

LayerTranscoder read_cross_layer(const fs::path& folder, int64_t layer, int64_t layers) {
  const std::string n = std::to_string(layer);
  const LayerFile file(folder / fmt::format("W_enc_{}.safetensors", layer));
  LayerTranscoder result;
  result.decoder_bias = file.read("b_dec_" + n, {-1});
  const int64_t D = result.decoder_bias.size(0);
  result.encoder = file.read("W_enc_" + n, {-1, D});
  const int64_t F = result.encoder.size(0);
  result.encoder_bias = file.read("b_enc_" + n, {F});
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

void add_matrix(NamedTensors& tensors, const std::string& name, const Tensor& matrix, int bits) {
  const Tensor host = matrix.detach().cpu().to(at::kFloat).contiguous();
  if (bits == kPlainBits) return tensors.push_back({name, host});
  const RoundedRows rounded = round_rows(host, bits);
  if (bits == kByteBits) {
    tensors.emplace_back(name, rounded.codes);
  } else {
    tensors.emplace_back(codes_name(name, bits), pack_rows(rounded.codes, bits));
  }
  tensors.emplace_back(name + kScales, rounded.scales);
}

void add_vector(NamedTensors& tensors, const std::string& name, const Tensor& vector) {
  tensors.emplace_back(name, vector.detach().cpu().to(at::kFloat).contiguous());
}

void write_per_layer(const fs::path& folder, int64_t layer, const LayerTranscoder& transcoder, int bits) {
  NamedTensors tensors;
  add_matrix(tensors, "W_enc", transcoder.encoder, bits);
  add_vector(tensors, "b_enc", transcoder.encoder_bias);
  add_matrix(tensors, "W_dec", transcoder.decoder.squeeze(1), bits);
  add_vector(tensors, "b_dec", transcoder.decoder_bias);
  add_vector(tensors, kThreshold, transcoder.threshold);
  if (transcoder.skip.defined()) add_matrix(tensors, "W_skip", transcoder.skip, bits);
  save_tensors(folder / fmt::format("layer_{}.safetensors", layer), tensors);
}

void write_cross_layer(const fs::path& folder, int64_t layer, const LayerTranscoder& transcoder, int bits) {
  const std::string n = std::to_string(layer);
  if (transcoder.skip.defined()) {
    fail_input("a cross-layer transcoder with a skip", folder.string(), "the layout has no place for one");
  }
  NamedTensors tensors, decoder;
  add_matrix(tensors, "W_enc_" + n, transcoder.encoder, bits);
  add_vector(tensors, "b_enc_" + n, transcoder.encoder_bias);
  add_vector(tensors, "b_dec_" + n, transcoder.decoder_bias);
  add_vector(tensors, "threshold_" + n, transcoder.threshold);
  add_matrix(decoder, "W_dec_" + n, transcoder.decoder, bits);
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

void save_transcoders(const fs::path& folder, const Transcoders& transcoders, int bits) {
  check_transcoder_place(folder);
  make_folder(folder);
  std::error_code ignored;
  fs::remove(folder / kDescriptionsFile, ignored);  // those of other features
  for (size_t n = 0; n < transcoders.layers.size(); ++n) {
    const auto write = transcoders.kind == TranscoderKind::kPerLayer ? write_per_layer : write_cross_layer;
    write(folder, static_cast<int64_t>(n), transcoders.layers[n], bits);
  }
  remove_others(folder, transcoders.kind, transcoders.layers.size());
  write_text_file(folder / kConfigFile, write_transcoder_config(transcoders));
}

}  // namespace openwork
