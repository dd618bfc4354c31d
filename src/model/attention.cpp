#include "model/attention.h"

#include <ATen/ATen.h>

#include <limits>

#include "base/philox.h"
#include "ops/gated_attention.h"
#include "ops/gated_inference.h"

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
  return {at::scaled_dot_product_attention(call.q, call.k, call.v, mask, 0.0, /*is_causal=*/whole, call.scale,
                                           grouped),
          {},
          {}};
}

std::optional<Tensor> idle_of(const AttentionCall& call) {
  return call.gate_idle.defined() ? std::optional<Tensor>(call.gate_idle) : std::nullopt;
}

AttentionResult attend_gated(const AttentionCall& call) {
  const auto run = [&](const auto& attention) -> AttentionResult {
    const GatedAttentionResult result =
        attention(call.q, call.k, call.v, call.gate_bias, idle_of(call), gate_name(call.gate), call.draw.seed,
                  call.draw.first, call.scale, call.draw.sharpness);
    return {result.out, result.penalty, result.active};
  };
  if (!call.turns.cosine.defined()) return run(gated_attention);
  return run([&](const auto&... arguments) {
    return turned_gated_attention({call.turns.cosine, call.turns.sine}, arguments...);
  });
}

// What sums are formed in: float32, float64 where the model is.
at::ScalarType wide_dtype(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// r g of every edge, [B, H, T, K], of scores S that are -infinity where a key is hidden. What gate `idle` has
// beyond logprob is log sigmoid(L - a) <= 0, which is 0 for a = -infinity, -infinity for a = +infinity and
// about L - a for a large a: never inf - inf, as L, the row's log-sum-exp over its keys, is finite.
Tensor find_gates(const AttentionCall& call, const Tensor& S) {
  const at::ScalarType wide = wide_dtype(S);
  const auto by_head = [wide](const Tensor& x) { return x.to(wide).view({1, -1, 1, 1}); };  // [1, H, 1, 1]
  Tensor b = by_head(call.gate_bias);
  if (call.gate == GateKind::kIdle) {
    const Tensor L = S.to(wide).logsumexp(-1, true);  // [B, H, T, 1]
    b = b + at::log_sigmoid(L - by_head(call.gate_idle));
  }
  const Tensor g = (call.gate == GateKind::kScore ? S.to(wide) : at::log_softmax(S, -1, wide)) + b;
  return call.draw.sharpness == 1 ? g : g * call.draw.sharpness;
}

// z, 0 or 1: hard, or sampled from the uniforms that the operator draws for a text of K tokens, of which the
// queries are the last T. Sampled ones are straight-through: forward the step, backward the sigmoid's slope.
Tensor draw_gates(const AttentionCall& call, const Tensor& g, const Tensor& hidden) {
  if (!call.draw.seed) return (g > 0).logical_and(hidden.logical_not()).to(g.dtype());
  const int64_t queries = g.size(2), keys = g.size(3);
  const Tensor u = gate_uniforms(g.size(0), g.size(1), keys, *call.draw.seed, call.draw.first)
                       .narrow(2, keys - queries, queries)
                       .to(g.device());
  const Tensor noisy = g + (u.log() - (1 - u).log()).to(g.dtype()), s = noisy.sigmoid();
  return ((noisy > 0).to(g.dtype()) + (s - s.detach())).masked_fill(hidden, 0);
}

// The same line by line (docs/operator.md), every T x K number in memory so that it can be tapped.
AttentionResult attend_written_out(const AttentionCall& call) {
  const int64_t queries = call.q.size(2), keys = call.k.size(2), group = call.q.size(1) / call.k.size(1);
  const Tensor k = group == 1 ? call.k : call.k.repeat_interleave(group, 1);
  const Tensor v = group == 1 ? call.v : call.v.repeat_interleave(group, 1);
  const Tensor hidden = causal_mask(queries, keys, call.q.device()).logical_not();

  Tensor S = at::matmul(call.q, k.transpose(-2, -1)) * call.scale;  // [B, H, T, K]
  S = tap(call.taps, Site::kScores, call.layer,
          S.masked_fill(hidden, -std::numeric_limits<float>::infinity()));
  Tensor P = at::softmax(S, -1, wide_dtype(S));
  AttentionResult result;
  if (call.gate != GateKind::kNone) {
    const Tensor g = find_gates(call, S);
    const Tensor z = tap(call.taps, Site::kGate, call.layer, draw_gates(call, g, hidden));
    P = P * z;
    const double pairs = static_cast<double>(queries) * static_cast<double>(2 * keys - queries + 1) / 2;
    result.penalty = at::sigmoid(g).masked_fill(hidden, 0).sum({2, 3}) / pairs;
    result.active = z.sum({2, 3}).to(at::kLong);
  }
  if (call.kept.defined()) P = P * call.kept.to(P.dtype()).view({1, -1, 1, 1});
  P = tap(call.taps, Site::kPattern, call.layer, P.to(call.q.dtype()));
  result.z = at::matmul(P, v);
  return result;
}

// z of hard gates of many queries behind a long cache, on a GPU: a group's query heads read their keys together, and L
// comes out of the softmax, as the largest score less the log of its probability.
Tensor gather_behind_cache(const AttentionCall& call) {
  const int64_t B = call.q.size(0), H = call.q.size(1), T = call.q.size(2), G = call.k.size(1),
                K = call.k.size(2);
  const auto by_head = [](const Tensor& x) { return x.to(at::kFloat).view({1, -1, 1, 1}); };
  const Tensor q = (call.q * call.scale).reshape({B, G, H / G * T, call.q.size(3)});
  Tensor S = at::matmul(q, call.k.transpose(-2, -1)).to(wide_dtype(call.q)).view({B, H, T, K});
  if (T > 1)
    S = S.masked_fill(causal_mask(T, K, S.device()).logical_not(), -std::numeric_limits<float>::infinity());
  const Tensor P = at::softmax(S, -1);
  Tensor offset = by_head(call.gate_bias);
  if (call.gate != GateKind::kScore) {
    const Tensor L = S.amax(-1, true) - P.amax(-1, true).log();  // [B, H, T, 1]
    offset = offset - L;
    if (call.gate == GateKind::kIdle) offset = offset + at::log_sigmoid(L - by_head(call.gate_idle));
  }
  const Tensor open = P * (S + offset > 0);
  return at::matmul(open.to(call.v.dtype()).view({B, G, H / G * T, K}), call.v).view({B, H, T, -1});
}

// Uneven groups as even ones: k and v of every query head by itself.
AttentionCall with_own_keys(const AttentionCall& call) {
  AttentionCall own = call;
  own.k = call.k.index_select(1, call.key_of_query), own.v = call.v.index_select(1, call.key_of_query);
  own.key_of_query = Tensor();
  return own;
}

// Where z alone is wanted: whether gated_inference is the way to it. Dense attention has fused kernels of its own, on
// the CPU for whole texts, on a GPU for those too and wherever groups are even.
bool wants_inference(const AttentionCall& call) {
  const bool gated = call.gate != GateKind::kNone, uneven = call.key_of_query.defined();
  const bool whole = call.q.size(2) == call.k.size(2);
  if (call.q.is_cpu()) return gated || uneven || !whole;
  return is_quick_inference(call.q, call.k.size(2)) && (gated || (uneven && !whole));
}

}  // namespace

GateDraw GateDraw::of_layer(int64_t layer) const {
  GateDraw draw = *this;
  if (seed)
    draw.seed = static_cast<int64_t>(mix_seed(static_cast<uint64_t>(*seed), static_cast<uint64_t>(layer)));
  return draw;
}

AttentionResult attend(const AttentionCall& call) {
  const bool tapped = wanted(call.taps, Site::kScores, call.layer) ||
                      wanted(call.taps, Site::kGate, call.layer) ||
                      wanted(call.taps, Site::kPattern, call.layer);
  const bool gated = call.gate != GateKind::kNone, behind_cache = call.q.size(2) != call.k.size(2);
  if (!tapped && call.only_z && !call.draw.seed && wants_inference(call)) {
    return {gated_inference(call.q, call.k, call.v, call.gate_bias, call.gate_idle, call.gate, call.scale,
                            call.key_of_query),
            {},
            {}};
  }
  if (call.key_of_query.defined()) return attend(with_own_keys(call));
  if (!tapped && gated && behind_cache && call.only_z && !call.draw.seed)
    return {gather_behind_cache(call), {}, {}};
  if (tapped || (gated && behind_cache)) return attend_written_out(call);
  return gated ? attend_gated(call) : attend_dense(call);
}

}  // namespace openwork
