// Single attention edges (docs/method.md, 4): the term A_ij v_j of a head is taken out of z_i and zero, the
// corrupt run's term or its mean put there; nothing is renormalised. Also which edges there are to choose
// from.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "analyze/circuits/ablation.h"
#include "base/error.h"

namespace openwork {
namespace {

// Which runs remove which edges of one layer: [S, H, T, T] bool; undefined where none does.
Tensor removed_edges(const std::vector<const Intervention*>& entries, int64_t layer, int64_t heads,
                     int64_t tokens) {
  Tensor removed;
  for (size_t run = 0; run < entries.size(); ++run) {
    for (const Part& part : *entries[run]) {
      if (part.kind != Part::Kind::kEdge || part.layer != layer) continue;
      if (!removed.defined())
        removed = at::zeros({static_cast<int64_t>(entries.size()), heads, tokens, tokens}, at::kBool);
      const int64_t row = (static_cast<int64_t>(run) * heads + part.head) * tokens + part.query;
      removed.data_ptr<bool>()[row * tokens + part.key] = true;
    }
  }
  return removed;
}

// v [P, T, G, d] of the groups as [P, H, T, d], one per head.
Tensor spread_values(const Tensor& v, int64_t group) {
  const Tensor by_head = v.transpose(1, 2);
  return group == 1 ? by_head : by_head.repeat_interleave(group, 1);
}

}  // namespace

Tensor AblationRunner::replaced_terms(const Tensor& removed, int64_t layer) {
  const Tensor A = recorded(false, Site::kPattern, layer);  // [P, H, T, T]
  const Tensor v =
      spread_values(recorded(false, Site::kValue, layer), model_.config().group_size());  // [P, H, T, d]
  std::vector<Tensor> runs;
  for (int64_t n = 0; n < removed.size(0); ++n) {
    const Tensor terms = at::matmul(A * removed[n], v).transpose(1, 2);  // [P, T, H, d]
    runs.push_back(kind_ == AblationKind::kMean ? terms.mean(0, true) : terms);
  }
  return at::stack(runs);
}

void AblationRunner::add_edge_taps(const std::vector<const Intervention*>& entries, int64_t layer,
                                   Taps& taps) {
  Tensor removed = removed_edges(entries, layer, model_.config().heads, reader_.tokens());
  if (!removed.defined()) return;
  removed = removed.to(model_.device());
  const int64_t runs = removed.size(0), prompts = reader_.prompts(), tokens = reader_.tokens();
  // The last layer may have fewer queries than keys: its rows are the last ones.
  taps.replace({Site::kPattern, layer}, [=](const Tensor& A) {
    const int64_t queries = A.size(2);
    const Tensor rows = removed.narrow(2, tokens - queries, queries).unsqueeze(1);  // [S, 1, H, T', T]
    return A.view({runs, prompts, A.size(1), queries, tokens}).masked_fill(rows, 0).view(A.sizes());
  });
  if (kind_ == AblationKind::kZero) return;
  const Tensor terms = replaced_terms(removed, layer);
  taps.replace({Site::kZ, layer}, [=](const Tensor& z) {
    const int64_t queries = z.size(1);
    const Tensor by_run = z.reshape({runs, prompts, queries, z.size(2), z.size(3)});
    return (by_run + terms.narrow(2, tokens - queries, queries)).reshape(z.sizes());
  });
}

Tensor AblationRunner::open_edges(int64_t layer) {
  const int64_t T = reader_.tokens();
  if (model_.config().gate == GateKind::kNone) {
    return at::ones({model_.config().heads, T, T}, at::kBool).tril().contiguous();
  }
  const auto any = [&](bool clean) { return recorded(clean, Site::kGate, layer).gt(0).any(0); };
  return any(true).logical_or(any(false)).to(at::kCPU).contiguous();  // [H, T, T]
}

const char* ablation_name(AblationKind kind) {
  switch (kind) {
    case AblationKind::kZero:
      return "zero";
    case AblationKind::kMean:
      return "mean";
    case AblationKind::kInterchange:
      return "interchange";
  }
  return "";
}

AblationKind parse_ablation(const std::string& name) {
  for (const AblationKind kind : {AblationKind::kZero, AblationKind::kMean, AblationKind::kInterchange}) {
    if (name == ablation_name(kind)) return kind;
  }
  fail_input(fmt::format("unknown ablation '{}'", printable(name)), "--ablation",
             "use zero, mean or interchange");
}

}  // namespace openwork
