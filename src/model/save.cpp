#include "model/save.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/safe_files.h"
#include "model/architecture.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

DType file_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return DType::kF64;
    case at::kFloat:
      return DType::kF32;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kLong:
      return DType::kI64;
    case at::kByte:
      return DType::kU8;
    case at::kChar:
      return DType::kI8;
    default:
      break;
  }
  fail(fmt::format("tensors of dtype {} are not saved", c10::toString(dtype)), "save", "please report this");
}

const char* torch_name(at::ScalarType dtype) {
  return dtype == at::kHalf ? "float16" : dtype == at::kBFloat16 ? "bfloat16" : "float32";
}

void check_saveable(const ModelConfig& config, const fs::path& folder) {
  if (config.rope.frequency_divisors.empty()) return;
  fail_input("this GGUF file's rotary frequencies (rope_freqs) have no place in a config.json",
             folder.string(), "start from the model's Hugging Face folder");
}

}  // namespace

nlohmann::json make_config(const ModelConfig& config, at::ScalarType dtype) {
  nlohmann::json json = config.source;
  json.erase("use_sparse_attn");
  json.erase("attention_gate");
  if (config.gate != GateKind::kNone) json["attention_gate"] = describe_gate(config.gate);
  json["model_type"] = config.architecture;
  json["vocab_size"] = config.vocabulary;
  json["tie_word_embeddings"] = config.tied;
  json.erase("quantization_config");
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = torch_name(dtype);
  return json;
}

nlohmann::json describe_gate(GateKind gate) {
  return {{"kind", gate_name(gate)}, {"version", 1}};
}

// Pieces of a flat tensor through the CPU, so that a model on a GPU needs little memory here.
void write_pieces(const Tensor& tensor, const ByteSink& sink) {
  constexpr int64_t kPiece = int64_t{1} << 24;
  const Tensor flat = tensor.detach().reshape({-1});
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const Tensor piece = flat.narrow(0, begin, std::min(kPiece, flat.numel() - begin)).cpu().contiguous();
    sink({static_cast<const std::byte*>(piece.data_ptr()), piece.nbytes()});
  }
}

OutputTensor output_of(const std::string& name, const Tensor& tensor) {
  return {name, file_dtype(tensor.scalar_type()), tensor.sizes().vec(), {}, [tensor](const ByteSink& sink) {
            write_pieces(tensor, sink);
          }};
}

void save_tensors(const fs::path& file, const NamedTensors& tensors) {
  std::vector<OutputTensor> output;
  for (const auto& [name, tensor] : tensors) output.push_back(output_of(name, tensor));
  write_safetensors(file, std::move(output), {{"format", "pt"}});
}

void save_model(const fs::path& folder, const ModelConfig& config, const NamedTensors& parameters,
                at::ScalarType dtype) {
  check_saveable(config, folder);
  make_folder(folder);
  const Architecture& architecture = architecture_named(config.architecture, folder.string());
  const std::vector<ParameterSpec> specs = list_parameters(architecture, config);
  NamedTensors named;
  for (size_t n = 0; n < specs.size(); ++n) {
    const ParameterSpec& spec = specs[n];
    const bool renamed = architecture.file_names.contains(spec.role);
    const std::string name =
        renamed ? tensor_name(architecture.file_names, spec.role, spec.layer, spec.bias) : spec.name;
    named.emplace_back(name, parameters.at(n).second.detach().to(is_gate(spec.role) ? at::kFloat : dtype));
  }
  save_tensors(folder / "model.safetensors", named);
  write_text_file(folder / "config.json", make_config(config, dtype).dump(2) + "\n");
}

}  // namespace openwork
