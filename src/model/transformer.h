// The one transformer: every architecture is a ModelConfig over it. Parameters keep the names and layouts of
// the Hugging Face checkpoint, so that loading copies nothing, saving changes nothing, and gradients carry
// the names people know.
//   Tensor logits = model.forward(ids);                       // ids [B, T] -> [B, T, V]
//   Tensor loss = next_token_loss(logits, ids);               // mean over all next-token predictions
// The pass may be cut open: embed, then run_layers over any range, then unembed.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/activations.h"
#include "model/attention.h"
#include "model/config.h"
#include "model/key_value_cache.h"
#include "model/rotary.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace openwork {

struct Linear : LinearWeights {
  Tensor operator()(const Tensor& x) const;
};

struct Norm {
  Tensor weight, bias;  // [size]; undefined where the kind has none
  bool adds_to_grad = false;
};

// Where a layer of a pruned model stands. Layers as they are stored have `queries` and what follows, layers in the
// model's original shape have `kept`; those of a model that has all its heads have nothing of it.
struct PrunedHeads {
  Tensor queries;     // [H'] int64: the original numbers of the heads left; none in a layer without attention
  Tensor key_values;  // [G'] int64: of the key/value heads left
  Tensor key_of_query;  // [H'] int64: which of the G' a query head reads; undefined where groups are even
  Tensor kept;          // [H]: 1, or 0 of heads that are gone

  bool empty() const { return queries.defined() && queries.numel() == 0; }
};

struct Layer {
  Norm norm1, norm2, query_norm, key_norm;
  Linear qkv, query, key, value, attention_output, gate, up, down;
  Tensor gate_bias;  // [H] of a gated model
  Tensor gate_idle;  // [H] of gate `idle`
  PrunedHeads pruned;
};

// What a pass notes of its gates. A text's first n tokens are a text, whose gates are those of a call cut to
// n rows: for each n of `cuts` the open gates of that call too, gates hard, where the pass has no cache.
struct GateTotals {
  std::vector<Tensor> penalty, active;          // per layer [B, H]
  std::vector<int64_t> cuts;                    // asked for: numbers of rows
  std::vector<std::vector<Tensor>> cut_active;  // [cuts] of per layer [B, H]

  // Of a pruned model's layer with `heads` heads by its configuration: those that are gone have 0.
  void add(const AttentionCall& call, const AttentionResult& result, const PrunedHeads& pruned,
           int64_t heads);
  void add_without_heads(const Tensor& x, int64_t heads);
};

struct ForwardOptions {
  const Taps* taps = nullptr;
  KeyValueCache* cache = nullptr;  // what it holds precedes ids; it is extended by them
  bool last_only = false;          // logits of the last position alone: [B, 1, V]
  GateDraw draw = {};              // a gated model's noise; the layer is mixed into its seed
  GateTotals* gate_totals = nullptr;
  int64_t output_from = 0;  // run_layers: its last layer returns positions from here on alone
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Stands in for a layer: x [B, T, D] before layer `index` to x after it, gate totals filled in.
using LayerWrapper = std::function<Tensor(const Tensor& x, int64_t index, const ForwardOptions& options)>;

class Transformer {
 public:
  // Takes the parameters that list_parameters names, in its order.
  Transformer(ModelConfig config, NamedTensors parameters);

  const ModelConfig& config() const { return config_; }
  const NamedTensors& parameters() const { return parameters_; }
  // In the original shape, as activations are: a head that was pruned away has zeros for weights and a gate that
  // never opens. Passes without taps use the layers as they are stored.
  const Layer& layer(int64_t index) const { return whole_layers()[static_cast<size_t>(index)]; }
  at::Device device() const { return embedding_.device(); }
  at::ScalarType dtype() const { return embedding_.scalar_type(); }

  Tensor forward(const Tensor& ids, const ForwardOptions& options = {}) const;

  Tensor embed(const Tensor& ids, const ForwardOptions& options = {}) const;  // [B, T, D]
  Tensor run_layers(Tensor x, int64_t from, int64_t to,
                    const ForwardOptions& options = {}) const;                // layers [from, to)
  Tensor unembed(const Tensor& x, const ForwardOptions& options = {}) const;  // [B, T, V]
  // forward as far as the final norm: what unembedding() is multiplied with. [B, T, D]
  Tensor last_hidden(const Tensor& ids, const ForwardOptions& options = {}) const;

  // Parts of the pass by themselves, for those who change one thing and recompute only what follows it:
  // a layer from its input x and its heads' z [B, T, H, d] on; what its MLP adds to the stream x; a norm.
  Tensor finish_layer(const Tensor& x, const Tensor& z, int64_t index,
                      const ForwardOptions& options = {}) const;
  Tensor mlp_output(const Tensor& x, int64_t index) const;
  Tensor apply_norm(const Norm& norm, const Tensor& x) const;
  const Norm& final_norm() const { return final_norm_; }
  const Tensor& unembedding() const { return unembedding_; }            // [V, D]
  const Tensor& unembedding_bias() const { return unembedding_bias_; }  // [V], or undefined

  void require_grad(bool on);
  // For who trains the parameters by backward() and looks at nothing but their gradients: LinearWeights::adds_to_grad
  // and RowNorm::adds_to_grad of every layer.
  void add_to_grads();
  // From now on run_layers calls `wrapper` for each layer; train/recompute.h has the one there is.
  void wrap_layers(LayerWrapper wrapper) { wrapper_ = std::move(wrapper); }

 private:
  struct Pass;   // what the layers of one forward pass share
  struct Whole;  // a pruned model's layers in the original shape, made when they are first asked for
  const std::vector<Layer>& whole_layers() const;
  Tensor make_logits(const Tensor& normal) const;
  struct Stream;  // between layers
  Stream run_layer(const Stream& input, int64_t index, const Pass& pass, int64_t output_from) const;
  Stream add_blocks(const Tensor& x, const Tensor& z, int64_t index, const Pass& pass) const;
  enum class Block { kAttention, kMlp };
  NormedSum read_stream(Block block, const Tensor& x, const Tensor& added, int64_t index,
                        const Pass& pass) const;
  struct Heads {
    Tensor q, k, v;  // [B, T, heads, d]
  };
  Tensor gather_heads(const Tensor& input, int64_t index, const Pass& pass, int64_t output_from) const;  // z
  Heads project_heads(const Tensor& input, int64_t index, const Pass& pass) const;
  Tensor gather_values(const Heads& heads, int64_t index, const Pass& pass) const;  // z [B, T, H, d]
  Tensor write_heads(const Tensor& z, int64_t index, const Pass& pass) const;       // [B, T, D]
  Tensor attention_out(const Tensor& z, int64_t index, const Pass& pass) const;     // normed after, where so
  Tensor attention_added(const Tensor& z, int64_t index, const Pass& pass) const;   // undefined: nothing
  Tensor run_mlp(const Tensor& input, int64_t index, const Pass& pass) const;
  RowNorm row_norm(const Norm& norm) const;
  Tensor normalise(const Norm& norm, const Tensor& x, const Taps* taps, Site scale, Site normalized,
                   int64_t layer) const;

  ModelConfig config_;
  NamedTensors parameters_;
  Tensor embedding_, positions_, unembedding_, unembedding_bias_;
  Norm final_norm_;
  std::vector<Layer> layers_;     // as they are stored
  std::shared_ptr<Whole> whole_;  // of a pruned model
  std::shared_ptr<RotaryTables> rotary_ = std::make_shared<RotaryTables>();
  LayerWrapper wrapper_;
};

// Cross-entropy of logits [B, T, V] against ids [B, T] shifted by one, mean over the B (T - 1) predictions.
Tensor next_token_loss(const Tensor& logits, const Tensor& ids);

}  // namespace openwork
