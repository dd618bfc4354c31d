// Phase 1 of tracing: the prompt run once, and everything of it that tracing holds fixed. With patterns and
// norm scales fixed, attention is linear. What it adds to the stream at t is
//   constant_t + output ( sum over s <= t of mix_ts  kept_s value x_s )
// where the norm's weight and centring are folded into `value` (norms before blocks) or `output` (norms
// after), and its scales into `mix`: the pattern A_ts, over the norm's scale at s, or at t.
#pragma once
#include <vector>

#include "model/transformer.h"
#include "transcode/transcoder.h"

namespace openwork {

// H heads, G key/value heads, d head size, D width, M the MLP's inner width, T tokens.
struct FrozenLayer {
  Tensor pattern;  // A [H, T, T]: softmax, times the gates where there are any
  Tensor mix;      // [H, T, T]
  Tensor value;    // [G d, D]
  Tensor output;   // [D, H d]
  // [T, G d]: 0 where a value was clipped (OLMo), else 1; what it was clipped to, else 0. Both undefined where
  // nothing clips.
  Tensor kept, clipped;
  Tensor constant;         // [T, D]: of biases, and of clipped values
  std::vector<bool> open;  // [H]: heads whose pattern is not 0 everywhere
  Tensor scale;            // [T, 1]: of norm1
  Tensor z;                // [T, H, d]
  Tensor mlp_scale;        // [T, 1]: of norm2
  Tensor mlp_in;           // [T, D]: what the transcoder reads; undefined without transcoders
  Tensor mlp_slope;        // [T, M]: act(pre) / pre, or act(gate) of a gated MLP; undefined with transcoders
  Tensor mlp_out;          // [T, D]
};

struct FrozenRun {
  explicit FrozenRun(const Transformer& model) : model(model) {}

  const Transformer& model;
  int64_t tokens = 0;
  Tensor ids;        // [1, T]
  Tensor embedding;  // x_0 [T, D], learned positions with it
  std::vector<FrozenLayer> layers;
  Tensor final_scale;  // [1]: of the final norm at the last token
  Tensor logits;       // [V], of the last token

  const ModelConfig& config() const { return model.config(); }
  const FrozenLayer& layer(int64_t index) const { return layers[static_cast<size_t>(index)]; }
};

// ids [T], on the model's device. `transcoders` may be null.
FrozenRun run_frozen(const Transformer& model, const Transcoders* transcoders, const Tensor& ids);

// A norm with its scale taken out is linear: y = weight * centred x (+ bias). Rows that read y, as rows that
// read x; and rows that are x, as the y that comes of them. rows [..., D]; the scale is left to the caller.
Tensor fold_reading(const ModelConfig& config, const Norm& norm, const Tensor& rows);
Tensor fold_writing(const ModelConfig& config, const Norm& norm, const Tensor& rows);

// The MLP of one layer with its slope held fixed, backward: directions g [P, n, D] into its output at the
// first P tokens become directions into the stream it reads.
Tensor pull_mlp(const FrozenRun& run, int64_t layer, const Tensor& g);
// What such a direction finds at position `token` when the MLP reads nothing: its biases.
// g [n, D], tokens [n] -> [n].
Tensor read_mlp_constants(const FrozenRun& run, int64_t layer, const Tensor& g, const Tensor& tokens);

}  // namespace openwork
