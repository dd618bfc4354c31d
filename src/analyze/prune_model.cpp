#include "analyze/prune_model.h"

#include "analyze/held_out.h"
#include "base/progress.h"
#include "model/kept_heads.h"
#include "model/load.h"
#include "model/prune.h"
#include "text/tokenizer_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

// What transcoders of the source, or of what it was pruned from, know their model by.
std::string source_hash(const ModelConfig& config, const LocatedModel& located) {
  const std::string own = config.source.value("source_sha256", "");
  return config.kept_heads.empty() || own.empty() ? model_hash(located) : own;
}

// The tokenizer, and transcoders where the source has some: they serve the pruned model too.
void copy_what_serves(const LocatedModel& located, const fs::path& folder) {
  copy_tokenizer(located.path, folder);
  const fs::path own = located.adapter.value_or(located.path) / "transcoders";
  std::error_code error;
  if (!fs::is_directory(own, error)) return;
  copy_folder(own, folder / "transcoders");
}

std::function<void(int64_t)> advance_of(Progress& progress) {
  return [&progress](int64_t count) { progress.advance(static_cast<uint64_t>(count)); };
}

Evaluation measure_loss(const Transformer& model, const TokenBlocks& blocks, uint64_t seed,
                        const std::string& when) {
  Progress progress("loss " + when, static_cast<uint64_t>(blocks.count), " blocks");
  HeldOutOptions measure;
  measure.seed = seed;
  measure.advance = advance_of(progress);
  return evaluate_held_out(model, blocks, measure);
}

HeadWorths measure_worth(const Transformer& model, const TokenBlocks& blocks, const PruneRequest& request,
                         const PruneRecord& record) {
  if (request.settings.by == PruneBy::kEdges) return record.before.heads;
  if (request.task) return measure_task_effects(model, *request.task);
  const int64_t steps = count_kept_heads(model.config()) * blocks.count;
  Progress progress("effects", static_cast<uint64_t>(steps), " heads on blocks");
  return measure_loss_effects(model, blocks, advance_of(progress));
}

}  // namespace

PruneRecord prune_model(const Transformer& model, const TokenBlocks& blocks, const PruneRequest& request,
                        NewFolder& folder) {
  PruneRecord record;
  record.model = request.model, record.folder = request.out, record.settings = request.settings;
  if (request.settings.by == PruneBy::kEffect)
    record.effect_of = request.task_name.empty() ? "loss" : request.task_name;
  record.before = measure_loss(model, blocks, request.seed, "before");
  record.worth = measure_worth(model, blocks, request, record);
  record.kept = choose_heads(model.config(), record.worth, request.settings);
  save_pruned_model(folder.part(), prune_heads(model, record.kept),
                    source_hash(model.config(), request.located), model.dtype());
  copy_what_serves(request.located, folder.part());
  folder.commit();
  const Transformer saved = load_model(request.out, {model.dtype(), model.device()});
  record.heads_before = count_kept_heads(model.config());
  record.heads_after = count_kept_heads(saved.config());
  record.parameters_before = count_parameters(model), record.parameters_after = count_parameters(saved);
  record.after = measure_loss(saved, blocks, request.seed, "after");
  record.largest_logit_difference = compare_logits(model, saved, blocks);
  return record;
}

}  // namespace openwork
