#include "model/load.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "io/json.h"
#include "model/architecture.h"
#include "model/transformer_lens.h"
#include "model/weights.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

bool is_gguf(const TensorFile& file) {
  return file.metadata().contains("general.architecture");
}

fs::path config_path(const fs::path& model) {
  return (fs::is_directory(model) ? model : model.parent_path()) / "config.json";
}

// GGUF's q and k rows are paired (0, 1), (2, 3), ... for the other rotary convention: put them back.
Tensor undo_interleaving(const Tensor& weight, int64_t heads) {
  std::vector<int64_t> shape = weight.sizes().vec();
  return weight.view({heads, shape[0] / heads / 2, 2, -1}).transpose(1, 2).reshape(shape);
}

Tensor heads_from_blocks(const Tensor& qkv, int64_t heads) {
  return qkv.view({3, heads, qkv.size(0) / 3 / heads, -1}).transpose(0, 1).reshape(qkv.sizes());
}

// The shape that a tensor of this layout has in the file. A bias turned round is itself.
std::vector<int64_t> stored_shape(Layout layout, const std::vector<int64_t>& shape) {
  if (layout != Layout::kTransposed) return shape;
  return {shape.rbegin(), shape.rend()};
}

// Wants a tensor of the stored shape: views of another would fail, or read past its dimensions.
Tensor apply_layout(Layout layout, const Tensor& tensor, const ParameterSpec& spec,
                    const ModelConfig& config) {
  switch (layout) {
    case Layout::kTransposed:
      return spec.bias ? tensor : tensor.t().contiguous();
    case Layout::kRopeInterleaved:
      return undo_interleaving(tensor, spec.role == Role::kQuery ? config.heads : config.kv_heads);
    case Layout::kQkvBlocks:
      return heads_from_blocks(tensor, config.heads);
    case Layout::kSame:
      break;
  }
  return tensor;
}

// Where one kind of file keeps a parameter: the names it goes by there, and how to read it. `read` checks the
// shape in the file before it reads or rearranges anything, and gives the shape of the spec.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  virtual Tensor read(const ParameterSpec& spec, std::set<std::string>& used) const = 0;
  virtual bool may_ignore(const std::string& name) const = 0;
};

// The names a Hugging Face file may have a parameter under.
std::vector<std::string> names_in_file(const Architecture& architecture, const ParameterSpec& spec) {
  std::vector<std::string> names = {spec.name};
  if (architecture.file_names.contains(spec.role))
    names.push_back(tensor_name(architecture.file_names, spec.role, spec.layer, spec.bias));
  if (!architecture.optional_prefix.empty() && spec.name.starts_with(architecture.optional_prefix))
    names.push_back(spec.name.substr(architecture.optional_prefix.size()));
  return names;
}

class HuggingFaceSource : public ParameterSource {
 public:
  HuggingFaceSource(const WeightReader& reader, const Architecture& architecture, const ModelConfig& config)
      : reader_(reader), architecture_(architecture), config_(config) {}

  Tensor read(const ParameterSpec& spec, std::set<std::string>& used) const override {
    for (const std::string& name : names_in_file(architecture_, spec)) {
      if (!reader_.has(name)) continue;
      used.insert(name);
      reader_.file().check_shape(name, spec.shape);
      return is_gate(spec.role) ? reader_.read_gate(name, spec.role == Role::kGateIdle) : reader_.read(name);
    }
    // A checkpoint of the published kind (use_sparse_attn) gates at score > 0 and stores no bias.
    if (spec.role == Role::kGateBias && !config_.source.contains("attention_gate"))
      return at::zeros(spec.shape);
    return reader_.read(spec.name);  // fails, naming what is missing
  }

  bool may_ignore(const std::string& name) const override {
    for (const std::string_view ending : architecture_.ignored) {
      if (("." + name).ends_with(ending)) return true;
    }
    return config_.tied && (name == "lm_head.weight" || name == "embed_out.weight");
  }

 private:
  const WeightReader& reader_;
  const Architecture& architecture_;
  const ModelConfig& config_;
};

class GgufSource : public ParameterSource {
 public:
  GgufSource(const WeightReader& reader, const Architecture& architecture, const ModelConfig& config)
      : reader_(reader), architecture_(architecture), config_(config) {}

  Tensor read(const ParameterSpec& spec, std::set<std::string>& used) const override {
    const std::string name = tensor_name(architecture_.gguf_names, spec.role, spec.layer, spec.bias);
    used.insert(name);
    const auto it = architecture_.gguf_layouts.find(spec.role);
    const Layout layout = it == architecture_.gguf_layouts.end() ? Layout::kSame : it->second;
    reader_.file().check_shape(name, stored_shape(layout, spec.shape));
    return apply_layout(layout, reader_.read(name), spec, config_);
  }

  bool may_ignore(const std::string& name) const override { return name == "rope_freqs.weight"; }

 private:
  const WeightReader& reader_;
  const Architecture& architecture_;
  const ModelConfig& config_;
};

class TransformerLensSource : public ParameterSource {
 public:
  TransformerLensSource(const WeightReader& reader, const ModelConfig& config)
      : reader_(reader), config_(config) {}

  Tensor read(const ParameterSpec& spec, std::set<std::string>& used) const override {
    return read_transformer_lens(reader_, spec, config_, used);
  }
  bool may_ignore(const std::string& name) const override { return is_transformer_lens_buffer(name); }

 private:
  const WeightReader& reader_;
  const ModelConfig& config_;
};

void check_nothing_left(const TensorFile& file, const ParameterSource& source,
                        const std::set<std::string>& used) {
  for (const TensorEntry& entry : file.entries()) {
    if (used.contains(entry.name) || source.may_ignore(entry.name)) continue;
    fail_input(fmt::format("unexpected tensor '{}'", printable(entry.name)), file.origin(),
               "the weights and their configuration must be of the same model");
  }
}

std::unique_ptr<ParameterSource> choose_source(const WeightReader& reader, const Architecture& architecture,
                                               const ModelConfig& config) {
  if (is_gguf(reader.file())) return std::make_unique<GgufSource>(reader, architecture, config);
  if (is_transformer_lens(reader.file())) return std::make_unique<TransformerLensSource>(reader, config);
  return std::make_unique<HuggingFaceSource>(reader, architecture, config);
}

std::vector<float> read_frequency_divisors(const TensorEntry& entry, int64_t pairs,
                                           const std::string& origin) {
  std::vector<float> divisors(static_cast<size_t>(entry.element_count()));
  read_f32(entry, divisors);
  const bool positive =
      std::all_of(divisors.begin(), divisors.end(), [](float x) { return std::isfinite(x) && x > 0; });
  if (entry.element_count() != pairs || !positive) {
    fail_input(fmt::format("tensor '{}' does not hold {} numbers above 0", entry.name, pairs), origin,
               "convert the model again");
  }
  return divisors;
}

void check_rotary_size(const TensorFile& file, const ModelConfig& config) {
  const ConfigReader reader(file.metadata(), file.origin());
  const std::string key = reader.text_or("general.architecture", "") + ".rope.dimension_count";
  if (config.positions != Positions::kRotary) return;
  const int64_t size = reader.positive_or(key.c_str(), config.rope.rotary_size);
  if (size == config.rope.rotary_size) return;
  fail_input(fmt::format("{} is {}, wanted {}, the head size", key, size, config.rope.rotary_size),
             file.origin(), "models of this architecture turn whole heads: convert the model again");
}

// GGUF metadata does not say which weights have biases or whether the unembedding is tied: the tensors do.
ModelConfig read_gguf_config(const TensorFile& file) {
  const auto has = [&](const char* name) { return file.find(name) != nullptr; };
  nlohmann::json config = config_from_gguf(file.metadata(), file.origin());
  config["tie_word_embeddings"] = !has("output.weight");
  config["attention_bias"] = has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias");
  config["mlp_bias"] = has("blk.0.ffn_up.bias");
  ModelConfig result = read_model_config(config, file.origin());
  check_rotary_size(file, result);
  if (const TensorEntry* entry = file.find("rope_freqs.weight")) {
    result.rope.frequency_divisors =
        read_frequency_divisors(*entry, result.rope.rotary_size / 2, file.origin());
  }
  return result;
}

bool same_numbers(const TensorEntry& a, const TensorEntry& b) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype && a.is_contiguous() && b.is_contiguous())
    return a.bytes.size() == b.bytes.size() &&
           std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
  std::vector<float> left(static_cast<size_t>(a.element_count())), right(left.size());
  read_f32(a, left), read_f32(b, right);
  return left == right;
}

// A file may have an unembedding though its configuration says there is none of its own. As transformers has it,
// the file is right where the numbers are others than the embedding's.
void look_for_unembedding(const TensorFile& file, ModelConfig& config) {
  if (!config.tied) return;
  const Architecture& architecture = architecture_named(config.architecture, file.origin());
  const auto find = [&](Role role) -> const TensorEntry* {
    for (const std::string& name : names_in_file(
             architecture, {role, -1, false, tensor_name(architecture.names, role, -1, false), {}})) {
      if (const TensorEntry* entry = file.find(name)) return entry;
    }
    return nullptr;
  };
  const TensorEntry *embedding = find(Role::kEmbedding), *unembedding = find(Role::kUnembedding);
  if (!embedding || !unembedding || embedding->bytes.data() == unembedding->bytes.data()) return;
  config.tied = same_numbers(*embedding, *unembedding);
  if (config.tied) file.release(*unembedding);
}

ModelConfig read_config_of(const fs::path& path, const TensorFile& file) {
  if (is_gguf(file)) return read_gguf_config(file);
  const fs::path json_path = config_path(path);
  ModelConfig config = read_model_config(read_json_file(json_path), json_path.string());
  if (is_transformer_lens(file)) {
    adapt_to_transformer_lens(file, config);
  } else {
    look_for_unembedding(file, config);
  }
  return config;
}

}  // namespace

ModelConfig load_config(const fs::path& path) {
  return read_config_of(path, *open_weights(path));
}

Transformer load_model(const fs::path& path, const LoadOptions& options) {
  const std::shared_ptr<const TensorFile> file = open_weights(path);
  ModelConfig config = read_config_of(path, *file);
  const Architecture& architecture = architecture_named(config.architecture, file->origin());
  const WeightReader reader(file, options.dtype, options.trainable);
  const std::unique_ptr<ParameterSource> source = choose_source(reader, architecture, config);

  NamedTensors parameters;
  std::set<std::string> used;
  for (const ParameterSpec& spec : list_parameters(architecture, config)) {
    parameters.emplace_back(spec.name, source->read(spec, used).to(options.device));
  }
  check_nothing_left(*file, *source, used);
  Transformer model(std::move(config), std::move(parameters));
  if (options.trainable) model.require_grad(true);
  return model;
}

}  // namespace openwork
