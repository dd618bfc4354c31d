// Named activations: read or replace any intermediate of a forward pass, by the names TransformerLens users
// know (blocks.5.attn.hook_pattern, blocks.5.hook_resid_pre, ...). A forward pass without taps pays one null
// check per site; attention patterns are computed only in layers where a tap asks for scores, gate or pattern.
//   Taps taps;
//   taps.read("blocks.5.attn.hook_z", [&](const Tensor& z) { saved = z; });
//   taps.replace("blocks.2.hook_mlp_out", [](const Tensor& x) { return at::zeros_like(x); });
//   model.forward(ids, {.taps = &taps});
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace openwork {

using at::Tensor;

// B prompts, T tokens (queries), K keys (T and what the cache holds), H heads, G key/value heads, d head size,
// D width, M the MLP's inner width.
enum class Site {
  kEmbed,            // hook_embed                      [B, T, D]
  kPositions,        // hook_pos_embed                  [B, T, D] learned positions only
  kResidPre,         // blocks.N.hook_resid_pre         [B, T, D]
  kNorm1Scale,       // blocks.N.ln1.hook_scale         [B, T, 1]
  kNorm1Normalized,  // blocks.N.ln1.hook_normalized    [B, T, D]
  kQuery,            // blocks.N.attn.hook_q            [B, T, H, d]
  kKey,              // blocks.N.attn.hook_k            [B, T, G, d]
  kValue,            // blocks.N.attn.hook_v            [B, T, G, d]
  kRotatedQuery,     // blocks.N.attn.hook_rot_q        [B, T, H, d] rotary positions only
  kRotatedKey,       // blocks.N.attn.hook_rot_k        [B, T, G, d]
  kScores,           // blocks.N.attn.hook_attn_scores  [B, H, T, K] scaled, -inf above the diagonal
  kGate,             // blocks.N.attn.hook_gate         [B, H, T, K] z of a gated model, 0 or 1
  kPattern,          // blocks.N.attn.hook_pattern      [B, H, T, K] softmax, times z where gated
  kZ,                // blocks.N.attn.hook_z            [B, T, H, d]
  kResult,           // blocks.N.attn.hook_result       [B, T, H, D] each head's part of the output
  kAttentionOut,     // blocks.N.hook_attn_out          [B, T, D] what is added to the stream
  kResidMid,         // blocks.N.hook_resid_mid         [B, T, D] not with parallel residuals
  kNorm2Scale,       // blocks.N.ln2.hook_scale         [B, T, 1]
  kNorm2Normalized,  // blocks.N.ln2.hook_normalized    [B, T, D]
  kMlpPre,           // blocks.N.mlp.hook_pre           [B, T, M] what the activation function gets
  kMlpPreLinear,     // blocks.N.mlp.hook_pre_linear    [B, T, M] the other factor of a gated MLP
  kMlpPost,          // blocks.N.mlp.hook_post          [B, T, M]
  kMlpOut,           // blocks.N.hook_mlp_out           [B, T, D] what is added to the stream
  kResidPost,        // blocks.N.hook_resid_post        [B, T, D]
  kFinalScale,       // ln_final.hook_scale             [B, T, 1]
  kFinalNormalized,  // ln_final.hook_normalized        [B, T, D]
};

struct ActivationName {
  Site site;
  int64_t layer = -1;  // -1: not of a layer
  auto operator<=>(const ActivationName&) const = default;
};

// Both ways between a name and its place. Parsing fails naming the nearest known form.
ActivationName parse_activation_name(const std::string& name, int64_t layers);
std::string to_string(const ActivationName& name);

class Taps {
 public:
  using Reader = std::function<void(const Tensor&)>;
  using Replacer = std::function<Tensor(const Tensor&)>;

  void read(ActivationName name, Reader reader);
  void replace(ActivationName name, Replacer replacer);

  bool wants(Site site, int64_t layer) const { return taps_.contains({site, layer}); }
  // The activation after all replacements, in the order they were added; readers see what precedes them.
  Tensor pass(Site site, int64_t layer, Tensor activation) const;

 private:
  std::map<ActivationName, std::vector<Replacer>> taps_;
};

// The forward pass's side of it: free when there are no taps.
inline Tensor tap(const Taps* taps, Site site, int64_t layer, Tensor activation) {
  return taps == nullptr ? std::move(activation) : taps->pass(site, layer, std::move(activation));
}
inline bool wanted(const Taps* taps, Site site, int64_t layer) {
  return taps != nullptr && taps->wants(site, layer);
}

}  // namespace openwork
