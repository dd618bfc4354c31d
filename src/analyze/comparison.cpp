#include "analyze/comparison.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "analyze/heads/head_selection.h"
#include "base/error.h"
#include "base/progress.h"
#include "model/generate.h"
#include "text/prompt_file.h"
#include "text/token_shard.h"
#include "train/gather_blocks.h"

namespace openwork {
namespace {

constexpr int64_t kPromptContext = 64;  // tokens per block where losses are measured on the prompts

Evaluation measure_loss(const Transformer& model, const std::string& name, const ComparedText& text,
                        uint64_t seed) {
  Progress progress("loss " + name, static_cast<uint64_t>(text.held_out.count), " blocks");
  HeldOutOptions options;
  options.seed = seed;
  options.prompts = encode_sample_prompts(*text.tokenizer, text.beginning, model.config().context,
                                          model.config().vocabulary);
  options.advance = [&](int64_t count) { progress.advance(static_cast<uint64_t>(count)); };
  return evaluate_held_out(model, text.held_out, options);
}

ModelStatistics measure_statistics(const Transformer& model, const std::string& name,
                                   const ComparedText& text, StatisticsOptions options) {
  options.beginning = text.beginning;
  options.random_from = ordinary_tokens(*text.tokenizer, model.config().vocabulary);
  Progress progress("statistics " + name, text.prompts.size(), " prompts");
  ModelStatistics statistics = measure_heads(model, text.prompts, options, [&] { progress.advance(1); });
  statistics.name = name;
  return statistics;
}

ModelHeads picture_heads(const Transformer& model, const std::string& name, const Tensor& ids,
                         const ComparedText& text, int64_t most_heads) {
  HeadsSettings settings;
  settings.heads = whole_layers(model.config(), most_heads);
  settings.show_blank = true;
  settings.cells = ids.size(1);
  ModelHeads heads = collect_heads(model, ids, settings);
  heads.name = name;
  for (const int64_t id : text.shown) heads.pieces.push_back(text.tokenizer->piece(static_cast<int32_t>(id)));
  return heads;
}

std::optional<HeadScatter> scatter_where_possible(const Transformer& model, const std::string& name,
                                                  const Tensor& ids, const std::vector<HeadPlace>& places) {
  const auto missing = [&](const HeadPlace& place) {
    return place.layer >= model.config().layers || place.head >= model.config().heads;
  };
  if (ids.size(1) < 2 || places.size() < 2 || std::any_of(places.begin(), places.end(), missing)) return {};
  HeadScatter scatter = scatter_heads(model, ids, places);
  scatter.name = name;
  return scatter;
}

std::vector<std::string> continue_openings(const Transformer& model, const ComparedText& text,
                                           const ComparisonSettings& settings) {
  std::vector<std::string> texts;
  for (const std::string& opening : sample_openings()) {
    std::vector<int64_t> ids = text.beginning;
    const std::vector<int32_t> own = text.tokenizer->encode(opening);
    ids.insert(ids.end(), own.begin(), own.end());
    GenerateOptions options;
    options.tokens = std::min(settings.generate, model.config().context - static_cast<int64_t>(ids.size()));
    options.temperature = kSampleTemperature;
    options.top_k = kSampleTopK;
    options.seed = settings.seed;
    options.stop_at = text.tokenizer->end_of_text_id();
    if (options.tokens < 1) return {};
    const std::vector<int64_t> made = generate(model, ids, options);
    texts.push_back(text.tokenizer->decode(std::vector<int32_t>(made.begin(), made.end()), true));
  }
  return texts;
}

// The tests whose prompts are short and made of the model's own tokens; `eval --suite` has them all, at every distance.
SuiteModel test_capability(const Transformer& model, const std::string& name, const ComparedText& text,
                           const ComparisonSettings& settings) {
  constexpr int64_t kContext = 128;
  if (settings.capability == 0) return {name, {}};
  SuiteSource source;
  source.vocabulary = make_vocabulary(model.config(), text.tokenizer, text.beginning, text.copy_begins);
  source.context = std::min(kContext, model.config().context);
  source.prompts = settings.capability, source.seed = settings.seed;
  return run_suite(model, name, source,
                   choose_suite_tests(
                       {"copy", "copy-choice", "retrieve", "ioi", "greater-than", "docstring", "opposite"}));
}

}  // namespace

const std::vector<std::string>& sample_openings() {
  static const std::vector<std::string> openings = {"Once upon a time there was a king who",
                                                    "The city of Paris is",
                                                    "\"I do not believe it,\" said the captain, \""};
  return openings;
}

void add_model(Comparison& comparison, const Transformer& model, const std::string& name,
               const ComparedText& text, const ComparisonSettings& settings) {
  ComparedModel found;
  found.name = name;
  found.vocabulary = hash_vocabulary(*text.tokenizer);
  found.loss = measure_loss(model, name, text, settings.seed);
  found.cost = measure_cost(model, gather_blocks(text.held_out, 0, 1, 0));
  found.capability = test_capability(model, name, text, settings);
  ModelStatistics statistics = measure_statistics(model, name, text, settings.statistics);
  const Tensor ids = at::tensor(text.shown, at::kLong).unsqueeze(0).to(model.device());  // [1, T]
  found.heads = picture_heads(model, name, ids, text, settings.most_heads);
  if (comparison.scatter_heads.empty()) comparison.scatter_heads = find_leading(statistics);
  found.scatter = scatter_where_possible(model, name, ids, comparison.scatter_heads);
  found.continuations = continue_openings(model, text, settings);
  comparison.models.push_back(std::move(found));
  add_model(comparison.statistics, std::move(statistics), settings.seed);
}

TokenBlocks read_loss_blocks(const LossData& data, const std::vector<std::string>& prompts,
                             const Tokenizer& tokenizer, int32_t end_of_text, const ModelConfig& config) {
  if (data.files.empty())
    return blocks_of_texts(prompts, tokenizer, end_of_text, std::min(kPromptContext, config.context));
  const int64_t context = data.context > 0 ? data.context : std::min<int64_t>(config.context, 512);
  if (context > config.context) {
    fail_input(fmt::format("--context {}", context), "compare",
               fmt::format("the model's context is {}", config.context));
  }
  return read_blocks({data.files.begin(), data.files.end()}, &tokenizer, end_of_text, context, data.blocks);
}

TokenBlocks blocks_of_texts(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                            int32_t end_of_text, int64_t context) {
  TokenBlocks blocks;
  for (size_t document = 0; document < texts.size(); ++document) {
    std::vector<int32_t> ids = tokenizer.encode(texts[document]);
    ids.push_back(end_of_text);
    for (const int32_t id : ids) {
      blocks.tokens.push_back(id);
      blocks.document.push_back(static_cast<int32_t>(document));
      blocks.bytes.push_back(id == end_of_text ? 0 : static_cast<uint32_t>(tokenizer.piece(id).size()));
    }
  }
  blocks.context = std::min(context, static_cast<int64_t>(blocks.tokens.size()) - 1);
  if (blocks.context < 1)
    fail_input("fewer than two tokens of prompts", "--prompts", "give longer prompts, or --data");
  blocks.count = (static_cast<int64_t>(blocks.tokens.size()) - 1) / blocks.context;
  const auto used = static_cast<size_t>(blocks.count * blocks.context + 1);
  blocks.tokens.resize(used), blocks.document.resize(used), blocks.bytes.resize(used);
  return blocks;
}

}  // namespace openwork
