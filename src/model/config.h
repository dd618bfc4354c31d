// A model's shape and manner as plain data. One transformer (model/transformer.h) reads this description;
// the files of model/arch/ write it, one per architecture, from the config.json people have.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/gate_kind.h"

namespace openwork {

enum class Positions { kLearned, kRotary };
enum class NormKind { kLayerNorm, kPlainLayerNorm /* no weights: OLMo */, kRmsNorm };
enum class NormPlacement { kBefore, kAfter /* on a block's output: OLMo-2 */ };
enum class Activation { kGelu, kGeluTanh, kQuickGelu, kRelu, kSilu };
enum class QkvLayout {
  kSeparate,      // three matrices
  kFusedBlocks,   // one matrix, rows [all q | all k | all v]: GPT-2
  kFusedPerHead,  // one matrix, rows [q k v] of head 0, then of head 1, ...: GPT-NeoX
};

// Rotary positions: pairs (x[n], x[n + rotary_size/2]) turned by position * theta^(-2n/rotary_size), with the
// frequencies changed by `kind` the way config.json's rope_parameters say.
struct Rope {
  std::string kind = "default";  // default, linear, llama3, yarn, dynamic
  double theta = 10000.0;
  int64_t rotary_size = 0;  // of head_size; the rest of a head is left as it is
  double factor = 1.0;
  double low_frequency_factor = 1.0, high_frequency_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;                        // yarn
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // yarn
  bool truncate = true;                                            // yarn
  int64_t original_context = 0;                                    // llama3, yarn, dynamic
  std::vector<float> frequency_divisors;                           // GGUF's rope_freqs; empty for none
};

struct ModelConfig {
  std::string architecture;  // config.json's model_type: gpt2, olmo, olmo2, llama, gpt_neox
  int64_t layers = 0, heads = 0, kv_heads = 0, head_size = 0;
  int64_t width = 0;  // of the residual stream
  int64_t inner = 0;  // of the MLP
  int64_t vocabulary = 0, context = 0;
  // The heads a pruned model still has, by their original numbers, ascending, per layer; empty where it has all.
  // heads and kv_heads stay the original numbers (model/kept_heads.h).
  std::vector<std::vector<int64_t>> kept_heads;

  Positions positions = Positions::kLearned;
  Rope rope;
  NormKind norm = NormKind::kLayerNorm;
  NormPlacement norm_placement = NormPlacement::kBefore;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::kGeluTanh;
  bool gated_mlp = false;          // down(act(gate x) * up x) in place of down(act(up x))
  bool parallel_residual = false;  // attention and MLP both read the block's input: GPT-NeoX

  QkvLayout qkv_layout = QkvLayout::kSeparate;
  bool transposed_linear = false;  // weights lie as [in, out]: GPT-2's Conv1D
  bool qkv_bias = false, output_bias = false, mlp_bias = false, unembed_bias = false;
  bool qk_norm = false;            // RMS norm over all of q and all of k: OLMo-2
  std::optional<double> clip_qkv;  // q, k, v clamped to +- this: OLMo
  bool scale_scores = true;        // by 1/sqrt(head_size)
  bool scale_by_layer = false;     // and by 1/(layer + 1): a GPT-2 option
  bool tied = false;               // the unembedding is the embedding

  GateKind gate = GateKind::kNone;
  std::optional<int64_t> beginning_token, end_token;
  std::optional<int64_t> padding_token;  // its embedding gets no gradient: Llama, OLMo, OLMo-2
  nlohmann::json source;                 // the config.json it was read from

  int64_t group_size() const { return heads / kv_heads; }
  double score_scale(int64_t layer) const;  // c of docs/method.md, 1
};

// The gate of that name (base/gate_kind.h), or the error that names `where`.
GateKind parse_gate(const std::string& name, const std::string& where);

// Reads fields of a config.json with one-line errors that name the key, the value and the file.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& config, std::string origin);

  int64_t positive(const char* key) const;                       // required, >= 1
  int64_t positive_or(const char* key, int64_t fallback) const;  // absent or null: the fallback
  double number_or(const char* key, double fallback) const;
  double not_negative_or(const char* key, double fallback) const;
  bool flag_or(const char* key, bool fallback) const;
  std::string text_or(const char* key, const std::string& fallback) const;
  std::optional<double> optional_number(const char* key) const;
  std::optional<int64_t> optional_id(const char* key) const;  // a token id; the first of a list
  const nlohmann::json* object(const char* key) const;        // nullptr when absent or null
  const nlohmann::json& json() const { return config_; }
  const std::string& origin() const { return origin_; }

  [[noreturn]] void refuse(const std::string& key, const std::string& seen, const std::string& wanted) const;

 private:
  const nlohmann::json* find(const char* key) const;

  const nlohmann::json& config_;
  std::string origin_;
};

// The parts of a config.json that several architectures share.
Activation read_activation(const ConfigReader& reader, const char* key, const char* fallback);
// The fallbacks stand at the top of the file, by keys that differ, where rope_parameters have none.
Rope read_rope(const ConfigReader& reader, int64_t head_size, int64_t context, double share_fallback,
               double theta_fallback);
// attention_gate of a gated model, or the published Sparse GPT-2's use_sparse_attn.
GateKind read_gate(const ConfigReader& reader);

}  // namespace openwork
