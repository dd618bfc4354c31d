#include "analyze/circuits/ablation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "analyze/circuits/share_rows.h"

namespace openwork {
namespace {

Site site_of(Part::Kind kind) {
  switch (kind) {
    case Part::Kind::kHead:
      return Site::kZ;
    case Part::Kind::kQuery:
      return Site::kQuery;
    case Part::Kind::kKey:
      return Site::kKey;
    case Part::Kind::kValue:
      return Site::kValue;
    case Part::Kind::kMlp:
      return Site::kMlpOut;
    case Part::Kind::kEdge:
      return Site::kPattern;
  }
  return Site::kZ;
}

int32_t first_layer(const Intervention& parts) {
  int32_t first = parts.front().layer;
  for (const Part& part : parts) first = std::min(first, part.layer);
  return first;
}

// Whether the first layer touched must be run from its start: heads and MLPs come after z is gathered.
bool changes_attention(const Intervention& parts, int32_t layer) {
  return std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
    return part.layer == layer && part.kind != Part::Kind::kHead && part.kind != Part::Kind::kMlp;
  });
}

}  // namespace

// Interventions that start at the same layer in the same way.
struct AblationRunner::Batch {
  int64_t layer = 0;
  bool whole_layer = false;
  std::vector<size_t> indices;               // into the caller's list
  std::vector<const Intervention*> entries;  // as many

  int64_t size() const { return static_cast<int64_t>(entries.size()); }
};

double mean_of(const PromptMetrics& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

PromptMetrics to_prompt_metrics(const Tensor& row) {
  const Tensor wide = row.detach().to(at::kCPU, at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

AblationRunner::AblationRunner(const Transformer& model, const Task& task, AblationKind kind, Ranks* ranks)
    : model_(model), kind_(kind), ranks_(ranks), reader_(model, task) {
  const at::NoGradGuard no_grad;
  for (const bool clean : {true, false}) {
    recorded(clean, Site::kZ, 0);
    const Tensor last = recorded(clean, Site::kResidPost, model.config().layers - 1);
    const Tensor read = last.narrow(1, reader_.output_from(), reader_.tokens() - reader_.output_from());
    PromptMetrics& metrics = clean ? clean_ : corrupt_;
    metrics = to_prompt_metrics(reader_.read(read)[0]);
    share_first(ranks_,
                metrics);  // machines may differ in a last digit, and what follows is decided by these
  }
}

AblationRunner::~AblationRunner() = default;

Tensor AblationRunner::recorded(bool clean, Site site, int64_t layer) {
  const auto found = recorded_.find({clean, {site, layer}});
  if (found != recorded_.end()) return found->second;
  const at::NoGradGuard no_grad;
  Taps taps;
  const auto record = [&](Site wanted, int64_t n) {
    taps.read({wanted, n}, [this, clean, wanted, n](const Tensor& x) {
      recorded_[{clean, {wanted, n}}] = x;
    });
  };
  const int64_t layers = model_.config().layers;
  if (layer < 0) record(site, -1);
  for (int64_t n = 0; n < layers && layer >= 0; ++n) {
    record(site, n);
    if (site == Site::kZ && clean) record(Site::kResidPre, n);  // where interventions start: comes with z
  }
  if (site == Site::kZ) record(Site::kResidPost, layers - 1);
  ForwardOptions options;
  options.taps = &taps;
  const Tensor ids = clean ? reader_.clean_ids() : reader_.corrupt_ids();
  model_.run_layers(model_.embed(ids, options), 0, layers, options);
  return recorded_.at({clean, {site, layer}});
}

Tensor AblationRunner::replacement(Site site, int64_t layer) {
  if (kind_ == AblationKind::kZero) return {};
  Tensor& value = replacements_[{site, layer}];
  if (!value.defined()) value = make_replacement(recorded(false, site, layer));
  return value;
}

Tensor AblationRunner::make_replacement(const Tensor& corrupt) const {
  switch (kind_) {
    case AblationKind::kZero:
      return at::zeros_like(corrupt.narrow(0, 0, 1));
    case AblationKind::kMean:
      return corrupt.mean(0, true);
    case AblationKind::kInterchange:
      return corrupt;
  }
  return corrupt;
}

int64_t AblationRunner::batch_size() const {
  // On a CPU a few thousand tokens keep the cores busy and the caches warm; a GPU wants many more.
  const int64_t budget = model_.device().is_cpu() ? 4096 : 1 << 18;
  return std::max<int64_t>(1, budget / (reader_.prompts() * reader_.tokens()));
}

// Those that start at the same layer in the same way, as many as fill a pass.
std::vector<AblationRunner::Batch> AblationRunner::make_batches(
    const std::vector<Intervention>& interventions) const {
  std::vector<Batch> batches;
  std::map<std::pair<int32_t, bool>, Batch> groups;  // by where they start
  for (size_t n = 0; n < interventions.size(); ++n) {
    if (interventions[n].empty()) continue;
    const int32_t layer = first_layer(interventions[n]);
    const bool whole = changes_attention(interventions[n], layer);
    Batch& batch = groups[{layer, whole}];
    batch.layer = layer, batch.whole_layer = whole;
    batch.indices.push_back(n), batch.entries.push_back(&interventions[n]);
    if (batch.size() == batch_size()) batches.push_back(std::exchange(batch, {}));
  }
  for (auto& [start, batch] : groups) {
    if (batch.size() > 0) batches.push_back(std::move(batch));
  }
  return batches;
}

const std::vector<bool>& AblationRunner::unchanged_heads(int64_t layer) {
  const auto found = unchanged_.find(layer);
  if (found != unchanged_.end()) return found->second;
  const Tensor z = recorded(true, Site::kZ, layer), value = replacement(Site::kZ, layer);  // [P, T, H, d]
  const Tensor same = (value.defined() ? z == value : z == 0).all(3).all(1).all(0);        // [H]
  const Tensor numbers = same.to(at::kCPU, at::kDouble).contiguous();
  std::vector<double> heads(numbers.data_ptr<double>(), numbers.data_ptr<double>() + numbers.numel());
  // Ranks of unlike machines may differ in a last digit, and must make the same passes.
  share_first(ranks_, heads);
  return unchanged_[layer] = std::vector<bool>(heads.begin(), heads.end());
}

// What is left changes something: a pass of other shapes would give the rest the clean metric to a last digit only, and its
// effect shall be 0.
Intervention AblationRunner::without_unchanged(const Intervention& intervention) {
  Intervention acting;
  for (const Part& part : intervention) {
    const bool unchanged =
        part.kind == Part::Kind::kHead && unchanged_heads(part.layer)[static_cast<size_t>(part.head)];
    if (!unchanged) acting.push_back(part);
  }
  return acting;
}

std::vector<PromptMetrics> AblationRunner::run(const std::vector<Intervention>& asked, const Done& done) {
  const at::NoGradGuard no_grad;
  std::vector<Intervention> interventions;
  for (const Intervention& one : asked) interventions.push_back(without_unchanged(one));
  std::vector<PromptMetrics> results(interventions.size(), clean_);
  for (size_t n = 0; n < interventions.size() && done; ++n) {
    if (interventions[n].empty()) done({n}, {clean_});
  }
  // A round is one pass for each rank; the passes are those that one process makes.
  const std::vector<Batch> batches = make_batches(interventions);
  for (size_t first = 0; first < batches.size(); first += rank_count(ranks_)) {
    std::vector<size_t> indices;
    std::vector<PromptMetrics> metrics;
    for (size_t n = first; n < std::min(batches.size(), first + rank_count(ranks_)); ++n) {
      indices.insert(indices.end(), batches[n].indices.begin(), batches[n].indices.end());
      if (is_own(ranks_, n)) {
        for (PromptMetrics& row : run_batch(batches[n])) metrics.push_back(std::move(row));
      }
      metrics.resize(indices.size());
    }
    share_rows(ranks_, metrics, reader_.prompts());
    for (size_t n = 0; n < indices.size(); ++n) results[indices[n]] = metrics[n];
    if (done) done(indices, metrics);
  }
  return results;
}

// The stream after the batch's first layer, [S * P, T, D].
Tensor AblationRunner::start_batch(const Batch& batch, const ForwardOptions& options) {
  const int64_t runs = batch.size();
  const auto repeat = [&](const Tensor& x) {
    std::vector<int64_t> times(static_cast<size_t>(x.dim()), 1);
    times[0] = runs;
    return x.repeat(times);
  };
  const Tensor x = repeat(recorded(true, Site::kResidPre, batch.layer));
  if (batch.whole_layer) return model_.run_layers(x, batch.layer, batch.layer + 1, options);
  Tensor z = repeat(recorded(true, Site::kZ, batch.layer));
  const int64_t from = options.output_from, count = reader_.tokens() - from;
  return model_.finish_layer(x.narrow(1, from, count), z.narrow(1, from, count), batch.layer, options);
}

std::vector<PromptMetrics> AblationRunner::run_batch(const Batch& batch) {
  Taps taps;
  add_taps(batch, taps);
  ForwardOptions options;
  options.taps = &taps;
  const int64_t layers = model_.config().layers;
  // Only the last layer may leave positions out; if it is also the first, it is the one.
  if (batch.layer + 1 == layers) options.output_from = reader_.output_from();
  Tensor x = start_batch(batch, options);
  options.output_from = reader_.output_from();
  if (batch.layer + 1 < layers) x = model_.run_layers(x, batch.layer + 1, layers, options);
  const Tensor metrics = reader_.read(x);  // [S, P]
  std::vector<PromptMetrics> rows;
  for (int64_t n = 0; n < metrics.size(0); ++n) rows.push_back(to_prompt_metrics(metrics[n]));
  return rows;
}

namespace {

// Which runs replace which heads at one site: [S, heads] bool.
using Masks = std::map<ActivationName, Tensor>;

Masks collect_masks(const std::vector<const Intervention*>& entries, const ModelConfig& config) {
  Masks masks;
  for (size_t run = 0; run < entries.size(); ++run) {
    for (const Part& part : *entries[run]) {
      if (part.kind == Part::Kind::kEdge) continue;
      const bool shared = part.kind == Part::Kind::kKey || part.kind == Part::Kind::kValue;
      const int64_t heads = part.kind == Part::Kind::kMlp ? 1 : shared ? config.kv_heads : config.heads;
      const int64_t head = shared ? part.head / config.group_size() : part.head;
      Tensor& mask = masks[{site_of(part.kind), part.layer}];
      if (!mask.defined()) mask = at::zeros({static_cast<int64_t>(entries.size()), heads}, at::kBool);
      mask.data_ptr<bool>()[static_cast<int64_t>(run) * heads + head] = true;
    }
  }
  return masks;
}

}  // namespace

void AblationRunner::add_taps(const Batch& batch, Taps& taps) {
  const int64_t runs = batch.size(), prompts = reader_.prompts(), tokens = reader_.tokens();
  for (int64_t layer = batch.layer; layer < model_.config().layers; ++layer)
    add_edge_taps(batch.entries, layer, taps);
  for (const auto& [name, mask] : collect_masks(batch.entries, model_.config())) {
    const bool heads = name.site != Site::kMlpOut;
    const Tensor replaced =
        mask.to(model_.device())
            .view(heads ? at::IntArrayRef{runs, 1, 1, mask.size(1), 1} : at::IntArrayRef{runs, 1, 1, 1});
    const Tensor value = replacement(name.site, name.layer);
    taps.replace(name, [=](const Tensor& x) {
      std::vector<int64_t> shape =
          x.sizes().vec();  // [S * P, T', ...]: T' where the last layer leaves positions out
      shape[0] = prompts;
      shape.insert(shape.begin(), runs);
      const Tensor by_run = x.reshape(shape);
      if (!value.defined()) return by_run.masked_fill(replaced, 0).reshape(x.sizes());
      const int64_t from = tokens - x.size(1);
      return at::where(replaced, value.narrow(1, from, x.size(1)).unsqueeze(0), by_run).reshape(x.sizes());
    });
  }
}

}  // namespace openwork
