// One layer's attention from q, k, v to z, by the cheapest way that serves what was asked:
//   dense, nothing asked      the fused kernel (scaled_dot_product_attention)
//   gated, nothing asked      openwork::gated_attention; for z alone gated_inference (ops/gated_inference.h)
//   scores, gate or pattern tapped, or many queries behind a long cache on a GPU: written out, T x K numbers per head
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "model/activations.h"
#include "model/config.h"
#include "model/rotary.h"

namespace openwork {

// How gates are drawn: hard at inference; sampled in training, from the seed of this layer and step.
struct GateDraw {
  std::optional<int64_t> seed;
  int64_t first = 0;     // index of the first prompt in the step's global batch
  double sharpness = 1;  // r: r g stands for g in noise and penalty; hard gates are the same for any r > 0

  GateDraw of_layer(int64_t layer) const;  // of a pass's draw: every layer has a seed of its own
};

struct AttentionCall {
  Tensor q;          // [B, H, T, d]
  Tensor k, v;       // [B, G, K, d], K >= T: the last T keys are the queries' own positions
  Tensor gate_bias;  // [H]; undefined where there is no gate
  Tensor gate_idle;  // [H]: the score of the idle key; undefined but for gate `idle`
  GateKind gate = GateKind::kNone;
  double scale = 1;
  int64_t layer = 0;
  GateDraw draw;
  const Taps* taps = nullptr;
  Tensor key_of_query = {};  // [H] int64: the key/value head of each query head; undefined: h / (H / G)
  Tensor kept = {};          // [H] 1, or 0 of heads that were pruned away; undefined: all are there
  // Where defined, q and k are still to be turned by it; of gated layers with gradients that nobody taps, as
  // training has them.
  RotaryTable turns = {};
  bool only_z = false;  // nobody asks for penalty, active or gradients: hard gates may skip what is closed
};

struct AttentionResult {
  Tensor z;                // [B, H, T, d]
  Tensor penalty, active;  // [B, H], of gated layers; docs/method.md, 1
};

AttentionResult attend(const AttentionCall& call);

}  // namespace openwork
