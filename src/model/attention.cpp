#include "model/attention.h"

#include <ATen/ATen.h>

#include <limits>

#include "ops/gated_attention.h"

namespace openwork {
namespace {

// True where key j may be seen by query i: j <= i + (K - T).
Tensor causal_mask(int64_t queries, int64_t keys, const at::Device& device) {
  const auto options = at::TensorOptions().dtype(at::kBool).device(device);
  return at::ones({queries, keys}, options).tril(keys - queries);  // [T, K]
}

AttentionResult attend_dense(const AttentionCall& call) {
  const int64_t queries = call.q.size(2), keys = call.k.size(2);
  const bool whole = queries == keys, grouped = call.q.size(1) != call.k.size(1);
  std::optional<Tensor> mask;
  if (!whole && queries > 1) mask = causal_mask(queries, keys, call.q.device());
  return {at::scaled_dot_product_attention(call.q, call.k, call.v, mask, 0.0, /*is_causal=*/whole, call.scale, grouped),
          {}, {}};
}

AttentionResult attend_gated(const AttentionCall& call) {
  const GatedAttentionResult result =
      gated_attention(call.q, call.k, call.v, call.gate_bias, std::nullopt, gate_name(call.gate),
                      call.draw.seed, call.draw.first, call.scale);
  return {result.out, result.penalty, result.active};
}

// METHOD 1 in its own names, every T x K number in memory so that it can be tapped. Gates are hard here.
AttentionResult attend_written_out(const AttentionCall& call) {
  const int64_t queries = call.q.size(2), keys = call.k.size(2), group = call.q.size(1) / call.k.size(1);
  const Tensor k = group == 1 ? call.k : call.k.repeat_interleave(group, 1);
  const Tensor v = group == 1 ? call.v : call.v.repeat_interleave(group, 1);
  const Tensor hidden = causal_mask(queries, keys, call.q.device()).logical_not();

  Tensor S = at::matmul(call.q, k.transpose(-2, -1)) * call.scale;  // [B, H, T, K]
  S = tap(call.taps, Site::kScores, call.layer, S.masked_fill(hidden, -std::numeric_limits<float>::infinity()));
  Tensor P = at::softmax(S, -1, at::kFloat);
  AttentionResult result;
  if (call.gate != GateKind::kNone) {
    const Tensor bias = call.gate_bias.to(at::kFloat).view({1, -1, 1, 1});
    const Tensor g = (call.gate == GateKind::kScore ? S.to(at::kFloat) : at::log_softmax(S, -1, at::kFloat)) + bias;
    const Tensor z = tap(call.taps, Site::kGate, call.layer, (g > 0).logical_and(hidden.logical_not()).to(P.dtype()));
    P = P * z;
    const double pairs = static_cast<double>(queries) * static_cast<double>(2 * keys - queries + 1) / 2;
    result.penalty = at::sigmoid(g).masked_fill(hidden, 0).sum({2, 3}) / pairs;
    result.active = z.sum({2, 3}).to(at::kLong);
  }
  P = tap(call.taps, Site::kPattern, call.layer, P.to(call.q.dtype()));
  result.z = at::matmul(P, v);
  return result;
}

}  // namespace

AttentionResult attend(const AttentionCall& call) {
  const bool tapped = wanted(call.taps, Site::kScores, call.layer) || wanted(call.taps, Site::kGate, call.layer) ||
                      wanted(call.taps, Site::kPattern, call.layer);
  const bool gated = call.gate != GateKind::kNone, behind_cache = call.q.size(2) != call.k.size(2);
  if (tapped || (gated && behind_cache)) return attend_written_out(call);
  return gated ? attend_gated(call) : attend_dense(call);
}

}  // namespace openwork
