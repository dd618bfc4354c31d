#include "transcode/transcoder_folder.h"

#include "base/progress.h"
#include "transcode/descriptions.h"
#include "transcode/transcoder_files.h"

namespace openwork {
namespace {

void describe_folder(const std::filesystem::path& folder, const Transformer& model,
                     const Transcoders& transcoders, const TokenBlocks& blocks, const Tokenizer& tokenizer,
                     const FolderSettings& settings) {
  Progress progress("describe", static_cast<uint64_t>(2 * blocks.count), " blocks");
  const Descriptions descriptions =
      describe_features(model, transcoders, blocks, settings.contexts,
                        [&](int64_t count) { progress.advance(static_cast<uint64_t>(count)); });
  save_descriptions(folder, descriptions);
  if (!settings.details.empty()) write_feature_details(settings.details, descriptions, tokenizer);
}

}  // namespace

TranscoderQuality measure_folder(const std::filesystem::path& folder, const Transformer& model,
                                 const TokenBlocks& blocks, const Tokenizer& tokenizer, Ranks& ranks,
                                 const FolderSettings& settings) {
  const Transcoders saved = load_transcoders(folder, model.device());
  check_transcoders_fit(saved, model.config(), settings.model_hash, folder.string());
  TranscoderQuality quality;
  {
    Progress progress("measure", static_cast<uint64_t>(blocks.count), " blocks");
    quality = measure_transcoders(model, saved, blocks, ranks, settings.seed,
                                  [&](int64_t count) { progress.advance(static_cast<uint64_t>(count)); });
  }
  if (const int64_t count = std::min(settings.curve_blocks, blocks.count); count > 0) {
    Progress progress("curves", static_cast<uint64_t>(count), " blocks");
    quality.curves = measure_curves(model, saved, blocks, count, ranks,
                                    [&](int64_t done) { progress.advance(static_cast<uint64_t>(done)); });
  }
  if (settings.contexts > 0)
    ranks.run_first([&] { describe_folder(folder, model, saved, blocks, tokenizer, settings); });
  return quality;
}

}  // namespace openwork
