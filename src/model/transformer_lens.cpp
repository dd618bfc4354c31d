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

// Reads tensors under blocks.N. (or at the top) and notes their names.
class Names {
 public:
  Names(const WeightReader& reader, int64_t layer, std::set<std::string>& used)
      : reader_(reader), prefix_(layer < 0 ? "" : fmt::format("blocks.{}.", layer)), used_(used) {}

  Tensor read(const std::string& name) const {
    used_.insert(prefix_ + name);
    return reader_.read(prefix_ + name);
  }

  // W_Q [H, D, d] as rows [H*d, D]; b_Q [H, d] as [H*d].
  Tensor read_heads(const std::string& letter, bool bias) const {
    if (bias) return read("attn.b_" + letter).reshape({-1});
    const Tensor weight = read("attn.W_" + letter);
    return weight.transpose(1, 2).reshape({-1, weight.size(1)});
  }

 private:
  const WeightReader& reader_;
  std::string prefix_;
  std::set<std::string>& used_;
};

Tensor fuse_qkv(const Names& names, const ModelConfig& config, bool bias) {
  const std::vector<Tensor> parts = {names.read_heads("Q", bias), names.read_heads("K", bias),
                                     names.read_heads("V", bias)};
  if (config.qkv_layout == QkvLayout::kFusedBlocks) return at::cat(parts, 0);
  std::vector<Tensor> by_head;  // [H, d, ...] each
  for (const Tensor& part : parts) by_head.push_back(part.unflatten(0, {config.heads, config.head_size}));
  return at::cat(by_head, 1).flatten(0, 1);
}

// The role's tensor with weights as [out, in].
Tensor read_rows(const Names& names, const ParameterSpec& spec, const ModelConfig& config) {
  const bool bias = spec.bias;
  switch (spec.role) {
    case Role::kEmbedding:
      return names.read("embed.W_E");
    case Role::kPositions:
      return names.read("pos_embed.W_pos");
    case Role::kNorm1:
      return names.read(bias ? "ln1.b" : "ln1.w");
    case Role::kNorm2:
      return names.read(bias ? "ln2.b" : "ln2.w");
    case Role::kFinalNorm:
      return names.read(bias ? "ln_final.b" : "ln_final.w");
    case Role::kQkv:
      return fuse_qkv(names, config, bias);
    case Role::kQuery:
      return names.read_heads("Q", bias);
    case Role::kKey:
      return names.read_heads("K", bias);
    case Role::kValue:
      return names.read_heads("V", bias);
    case Role::kAttentionOutput:
      return bias ? names.read("attn.b_O") : names.read("attn.W_O").flatten(0, 1).t();
    case Role::kUp:
      return bias ? names.read("mlp.b_in") : names.read("mlp.W_in").t();
    case Role::kGate:
      return names.read("mlp.W_gate").t();
    case Role::kDown:
      return bias ? names.read("mlp.b_out") : names.read("mlp.W_out").t();
    case Role::kUnembedding:
      return bias ? names.read("unembed.b_U") : names.read("unembed.W_U").t();
    case Role::kGateBias:
      return at::zeros(spec.shape);  // the published models have no bias
    case Role::kGateIdle:
      return names.read("attn.gate_idle");  // nor an idle score: refused by its name
    case Role::kQueryNorm:
      return names.read("attn.q_norm.w");
    case Role::kKeyNorm:
      return names.read("attn.k_norm.w");
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
  if (embedding.shape.size() == 2) config.vocabulary = embedding.shape[0];
  config.tied = unembedding_is_embedding(embedding, file.at("unembed.W_U"));
  if (const TensorEntry* bias = file.find("unembed.b_U")) {
    const std::vector<float> values = read_all(*bias);
    config.unembed_bias = std::any_of(values.begin(), values.end(), [](float value) { return value != 0; });
  }
}

Tensor read_transformer_lens(const WeightReader& reader, const ParameterSpec& spec, const ModelConfig& config,
                             std::set<std::string>& used) {
  Tensor rows = read_rows(Names(reader, spec.layer, used), spec, config);
  if (config.transposed_linear && is_linear(spec.role) && !spec.bias) rows = rows.t();
  return rows.contiguous();
}

}  // namespace openwork
