#include "cli/compare_model.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/correlation.h"
#include "analyze/heads/head_classes.h"
#include "analyze/heads/head_statistics.h"
#include "analyze/held_out.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "cli/figure_options.h"
#include "cli/open.h"
#include "draw/token_marks.h"
#include "model/generate.h"
#include "report/head_sprites.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

constexpr int64_t kSampleContext = 64;  // blocks of the built-in prompts

// The built-in prompts as held-out blocks, each prompt a document followed by the end-of-text token.
TokenBlocks blocks_of_prompts(const std::vector<std::string>& texts, const Tokenizer& tokenizer, int32_t end,
                              int64_t context) {
  TokenBlocks blocks;
  for (size_t document = 0; document < texts.size(); ++document) {
    std::vector<int32_t> ids = tokenizer.encode(texts[document]);
    ids.push_back(end);
    for (const int32_t id : ids) {
      blocks.tokens.push_back(id);
      blocks.document.push_back(static_cast<int32_t>(document));
      blocks.bytes.push_back(id == end ? 0 : static_cast<uint32_t>(tokenizer.piece(id).size()));
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

TokenBlocks choose_blocks(const Transformer& model, const CompareOptions& options, const GivenPrompts& given,
                          const Tokenizer& tokenizer) {
  const int32_t end = end_of_text(tokenizer, model.config());
  if (options.data.empty())
    return blocks_of_prompts(given.texts, tokenizer, end, std::min(kSampleContext, model.config().context));
  const int64_t context =
      options.context > 0 ? options.context : std::min<int64_t>(model.config().context, 512);
  if (context > model.config().context) {
    fail_input(fmt::format("--context {}", context), "compare",
               fmt::format("the model's context is {}", model.config().context));
  }
  return read_blocks({options.data.begin(), options.data.end()}, tokenizer, end, context, options.blocks);
}

Evaluation measure_loss(const Transformer& model, const std::string& name, const CompareOptions& options,
                        const GivenPrompts& given, const TokenPrompts& prompts) {
  const TokenBlocks blocks = choose_blocks(model, options, given, *prompts.tokenizer);
  Progress progress("loss " + name, static_cast<uint64_t>(blocks.count), " blocks");
  HeldOutOptions measure;
  measure.seed = options.common.seed;
  measure.prompts = encode_sample_prompts(*prompts.tokenizer, prompts.beginning, model.config().context,
                                          model.config().vocabulary);
  measure.advance = [&](int64_t count) { progress.advance(static_cast<uint64_t>(count)); };
  return evaluate_held_out(model, blocks, measure);
}

// Every picture of the page: whole layers, evenly spaced where the model has more heads than may be shown.
std::vector<int64_t> choose_layers(const ModelConfig& config, int64_t most_heads) {
  const int64_t wanted = std::max<int64_t>(1, most_heads / config.heads),
                step = (config.layers + wanted - 1) / wanted;
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < config.layers; layer += step) layers.push_back(layer);
  return layers;
}

void picture_heads(const Transformer& model, const at::Tensor& ids, const CompareOptions& options,
                   ModelFindings& findings) {
  const ModelConfig& config = model.config();
  const std::vector<int64_t> layers = choose_layers(config, options.most_heads);
  HeadSheet& sheet = findings.sheet;
  sheet.layers = config.layers, sheet.heads = config.heads;
  sheet.left_out = (config.layers - static_cast<int64_t>(layers.size())) * config.heads;
  sheet.pictures.resize(layers.size() * static_cast<size_t>(config.heads));
  findings.block.columns = draw::choose_columns(static_cast<int64_t>(layers.size()), config.heads);
  findings.block.panels.resize(sheet.pictures.size());
  const int64_t cells = draw::choose_cells(ids.size(1), 2 * static_cast<int64_t>(sheet.pictures.size()));
  visit_patterns(model, ids, [&](const PatternView& pattern) {
    const auto layer = std::find(layers.begin(), layers.end(), pattern.place.layer);
    if (layer == layers.end()) return;
    const auto index = static_cast<size_t>((layer - layers.begin()) * config.heads + pattern.place.head);
    const HeadRecord& record =
        findings.statistics
            .records[static_cast<size_t>(pattern.place.layer * config.heads + pattern.place.head)];
    const PatternSummary summary = summarise_pattern(pattern, 0);
    HeadPicture& picture = sheet.pictures[index];
    picture = {pattern.place.name(), class_name(record.kind), summary.mass, record.mean[Statistic::kDensity],
               ""};
    findings.block.panels[index].label = picture.name;
    if (summary.blank()) return;
    picture.png = make_sprite(pattern.values, pattern.tokens);
    findings.block.panels[index].cells = draw::average_cells(pattern.values, pattern.tokens, cells);
  });
}

// A leading head of each kind that people ask about, in the order of the model.
std::vector<HeadPlace> choose_scatter_heads(const ModelStatistics& statistics) {
  std::vector<HeadPlace> places;
  const auto add = [&](Statistic statistic, size_t count) {
    for (const HeadRecord* head : leading_heads(statistics, statistic, count)) {
      const HeadPlace place{head->layer, head->head};
      if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
    }
  };
  add(Statistic::kInduction, 2), add(Statistic::kPrevious, 1), add(Statistic::kDuplicate, 1),
      add(Statistic::kSelf, 1), add(Statistic::kSink, 1);
  std::sort(places.begin(), places.end());
  return places;
}

std::optional<draw::ScatterBlock> scatter_heads(const Transformer& model, const at::Tensor& ids,
                                                const std::vector<HeadPlace>& places,
                                                const std::string& title) {
  const auto missing = [&](const HeadPlace& place) {
    return place.layer >= model.config().layers || place.head >= model.config().heads;
  };
  if (places.size() < 2 || std::any_of(places.begin(), places.end(), missing)) return {};
  draw::ScatterBlock block;
  block.title = title;
  block.colour = model.config().gate == GateKind::kNone ? draw::kDense : draw::kSparse;
  block.values.resize(places.size());
  for (const HeadPlace& place : places) block.names.push_back(place.name());
  visit_patterns(model, ids, [&](const PatternView& pattern) {
    const auto it = std::find(places.begin(), places.end(), pattern.place);
    if (it != places.end()) block.values[static_cast<size_t>(it - places.begin())] = causal_values(pattern);
  });
  block.pearson.assign(places.size(), std::vector<double>(places.size(), 1));
  block.spearman = block.pearson;
  for (size_t a = 0; a < places.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      block.pearson[a][b] = block.pearson[b][a] = pearson_correlation(block.values[a], block.values[b]);
      block.spearman[a][b] = block.spearman[b][a] = spearman_correlation(block.values[a], block.values[b]);
    }
  }
  return block;
}

std::vector<std::string> continue_openings(const Transformer& model, const CompareOptions& options,
                                           const TokenPrompts& prompts) {
  std::vector<std::string> texts;
  for (const std::string& opening : sample_openings()) {
    std::vector<int64_t> ids = prompts.beginning;
    const std::vector<int32_t> own = prompts.tokenizer->encode(opening);
    ids.insert(ids.end(), own.begin(), own.end());
    GenerateOptions settings;
    settings.tokens = std::min(options.generate, model.config().context - static_cast<int64_t>(ids.size()));
    settings.temperature = 0.7;
    settings.top_k = 40;
    settings.seed = options.common.seed;
    settings.stop_at = prompts.tokenizer->end_of_text_id();
    if (settings.tokens < 1) return {};
    const std::vector<int64_t> made = generate(model, ids, settings);
    texts.push_back(prompts.tokenizer->decode(std::vector<int32_t>(made.begin(), made.end()), true));
  }
  return texts;
}

}  // namespace

const std::vector<std::string>& sample_openings() {
  static const std::vector<std::string> openings = {"Once upon a time there was a king who",
                                                    "The city of Paris is",
                                                    "\"I do not believe it,\" said the captain, \""};
  return openings;
}

std::string describe_loss_data(const CompareOptions& options) {
  if (options.data.empty()) return options.prompts == "sample" ? "the built-in prompts" : "the prompts given";
  std::vector<std::string> names;
  for (const std::string& file : options.data)
    names.push_back(std::filesystem::path(file).filename().string());
  return fmt::format("{}", fmt::join(names, ", ")) +
         (options.blocks > 0 ? fmt::format(", {} blocks", options.blocks) : "");
}

ModelFindings look_at_model(const Transformer& model, const std::string& name, const CompareOptions& options,
                            const GivenPrompts& given, const std::vector<HeadPlace>& places) {
  const std::string shown = short_name(name);
  ModelFindings findings;
  findings.device = model.device().str();
  const TokenPrompts prompts = tokenise_prompts(given, name, model.config(), options.common);
  findings.loss = measure_loss(model, shown, options, given, prompts);
  StatisticsOptions statistics = options.statistics;
  statistics.beginning = prompts.beginning;
  statistics.random_from = ordinary_tokens(prompts.tokenizer, model.config().vocabulary);
  {
    Progress progress("statistics " + shown, prompts.ids.size(), " prompts");
    findings.statistics = measure_heads(model, prompts.ids, statistics, [&] { progress.advance(1); });
    findings.statistics.name = shown;
  }
  GivenPrompts one;
  one.texts = {options.prompt};
  const TokenPrompts looked_at = tokenise_prompts(one, name, model.config(), options.common);
  for (const int64_t id : looked_at.ids[0])
    findings.tokens.push_back(draw::mark_token(prompts.tokenizer->piece(static_cast<int32_t>(id))));
  const at::Tensor ids = at::tensor(looked_at.ids[0], at::kLong).unsqueeze(0).to(model.device());
  findings.sheet.model = findings.block.title = shown;
  findings.block.tokens = findings.tokens;
  picture_heads(model, ids, options, findings);
  findings.scatter_heads = places.empty() ? choose_scatter_heads(findings.statistics) : places;
  if (ids.size(1) > 1) findings.scatter = scatter_heads(model, ids, findings.scatter_heads, shown);
  findings.continuations = continue_openings(model, options, prompts);
  return findings;
}

}  // namespace openwork
