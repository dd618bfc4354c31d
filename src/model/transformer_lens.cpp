#include "model/transformer_lens.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace openwork {
namespace {

std::vector<float> read_all(const TensorEntry& entry) {
  std::vector<float> values(static_cast<size_t>(entry.element_count()));
  read_f32(entry, values);
  return values;
}

// W_U [D, V] is the transpose of W_E [V, D]?
bool unembedding_is_embedding(const TensorEntry& embedding, const TensorEntry& unembedding) {
  if (embedding.shape.size() != 2 || unembedding.shape.size() != 2) return false;
  const int64_t V = embedding.shape[0], D = embedding.shape[1];
  if (unembedding.shape[0] != D || unembedding.shape[1] != V) return false;
  const std::vector<float> rows = read_all(embedding), columns = read_all(unembedding);
  for (int64_t v = 0; v < V; ++v) {
    for (int64_t d = 0; d < D; ++d) {
      if (rows[static_cast<size_t>(v * D + d)] != columns[static_cast<size_t>(d * V + v)]) return false;
    }
  }
  return true;
}

using Shape = std::vector<int64_t>;

// Reads tensors under blocks.N. (or at the top), each of the shape it must have there, and notes their names.
class Names {
 public:
  Names(const WeightReader& reader, int64_t layer, std::set<std::string>& used)
      : reader_(reader), prefix_(layer < 0 ? "" : fmt::format("blocks.{}.", layer)), used_(used) {}

  Tensor read(const std::string& name, const Shape& shape) const {
    used_.insert(prefix_ + name);
    reader_.file().check_shape(prefix_ + name, shape);
    return reader_.read(prefix_ + name);
  }

  // W_Q [H, D, d] as rows [H*d, D]; b_Q [H, d] as [H*d].
  Tensor read_heads(const std::string& letter, int64_t rows, const ModelConfig& config, bool bias) const {
    const int64_t D = config.width, d = config.head_size, H = rows / d;
    if (bias) return read("attn.b_" + letter, {H, d}).reshape({rows});
    return read("attn.W_" + letter, {H, D, d}).transpose(1, 2).reshape({rows, D});
  }

 private:
  const WeightReader& reader_;
  std::string prefix_;
  std::set<std::string>& used_;
};

Tensor fuse_qkv(const Names& names, int64_t rows, const ModelConfig& config, bool bias) {
  std::vector<Tensor> parts;
  for (const char* letter : {"Q", "K", "V"})
    parts.push_back(names.read_heads(letter, rows / 3, config, bias));
  if (config.qkv_layout == QkvLayout::kFusedBlocks) return at::cat(parts, 0);
  std::vector<Tensor> by_head;  // [H, d, ...] each
  for (const Tensor& part : parts) by_head.push_back(part.unflatten(0, {-1, config.head_size}));
  return at::cat(by_head, 1).flatten(0, 1);
}

// The role's tensor of shape `rows`, weights as [out, in]: most lie the other way round in the file.
Tensor read_rows(const Names& names, const ParameterSpec& spec, const Shape& rows,
                 const ModelConfig& config) {
  const bool bias = spec.bias;
  const Shape columns(rows.rbegin(), rows.rend());
  switch (spec.role) {
    case Role::kEmbedding:
      return names.read("embed.W_E", rows);
    case Role::kPositions:
      return names.read("pos_embed.W_pos", rows);
    case Role::kNorm1:
      return names.read(bias ? "ln1.b" : "ln1.w", rows);
    case Role::kNorm2:
      return names.read(bias ? "ln2.b" : "ln2.w", rows);
    case Role::kFinalNorm:
      return names.read(bias ? "ln_final.b" : "ln_final.w", rows);
    case Role::kQkv:
      return fuse_qkv(names, rows[0], config, bias);
    case Role::kQuery:
      return names.read_heads("Q", rows[0], config, bias);
    case Role::kKey:
      return names.read_heads("K", rows[0], config, bias);
    case Role::kValue:
      return names.read_heads("V", rows[0], config, bias);
    case Role::kAttentionOutput:
      if (bias) return names.read("attn.b_O", rows);
      return names.read("attn.W_O", {rows[1] / config.head_size, config.head_size, rows[0]})
          .flatten(0, 1)
          .t();
    case Role::kUp:
      return bias ? names.read("mlp.b_in", rows) : names.read("mlp.W_in", columns).t();
    case Role::kGate:
      return names.read("mlp.W_gate", columns).t();
    case Role::kDown:
      return bias ? names.read("mlp.b_out", rows) : names.read("mlp.W_out", columns).t();
    case Role::kUnembedding:
      return bias ? names.read("unembed.b_U", rows) : names.read("unembed.W_U", columns).t();
    case Role::kGateBias:
      return at::zeros(spec.shape);  // the published models have no bias
    case Role::kGateIdle:
      return names.read("attn.gate_idle", rows);  // nor an idle score: refused by its name
    case Role::kQueryNorm:
      return names.read("attn.q_norm.w", rows);
    case Role::kKeyNorm:
      return names.read("attn.k_norm.w", rows);
  }
  fail("a parameter has no TransformerLens name", spec.name, "this is a defect: please report it");
}

bool is_linear(Role role) {
  return role == Role::kQkv || role == Role::kQuery || role == Role::kKey || role == Role::kValue ||
         role == Role::kAttentionOutput || role == Role::kUp || role == Role::kGate || role == Role::kDown;
}

}  // namespace

bool is_transformer_lens(const TensorFile& file) {
  return file.find("embed.W_E") != nullptr;
}

bool is_transformer_lens_buffer(const std::string& name) {
  static const std::vector<std::string> kEndings = {".attn.mask",       ".attn.IGNORE", ".attn.rotary_sin",
                                                    ".attn.rotary_cos", "unembed.W_U",  "unembed.b_U"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](const std::string& ending) { return name.ends_with(ending); });
}

void adapt_to_transformer_lens(const TensorFile& file, ModelConfig& config) {
  const TensorEntry& embedding = file.at("embed.W_E");
  if (embedding.shape.size() == 2 && embedding.shape[0] > 0) config.vocabulary = embedding.shape[0];
  file.check_shape(embedding.name, {config.vocabulary, config.width});
  config.tied = unembedding_is_embedding(embedding, file.at("unembed.W_U"));
  if (const TensorEntry* bias = file.find("unembed.b_U")) {
    file.check_shape(bias->name, {config.vocabulary});
    const std::vector<float> values = read_all(*bias);
    config.unembed_bias = std::any_of(values.begin(), values.end(), [](float value) { return value != 0; });
  }
}

Tensor read_transformer_lens(const WeightReader& reader, const ParameterSpec& spec, const ModelConfig& config,
                             std::set<std::string>& used) {
  const bool turned = config.transposed_linear && is_linear(spec.role) && !spec.bias;
  const Shape shape = turned ? Shape(spec.shape.rbegin(), spec.shape.rend()) : spec.shape;
  const Tensor rows = read_rows(Names(reader, spec.layer, used), spec, shape, config);
  return (turned ? rows.t() : rows).contiguous();
}

}  // namespace openwork
