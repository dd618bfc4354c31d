// Models side by side on the same text: each one's held-out loss, every head on one prompt, statistics, the
// scatter of a few heads, and text it continues. Any number of models, looked at one after the other so that
// only one is in memory; the first is the yardstick that the others are tested against.
//   Comparison comparison;
//   for (...) add_model(comparison, model, text, settings);
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/capability/suite.h"
#include "analyze/heads/head_scatter.h"
#include "analyze/heads/head_statistics.h"
#include "analyze/heads/model_comparison.h"
#include "analyze/heads/model_heads.h"
#include "analyze/held_out.h"
#include "analyze/model_cost.h"
#include "model/transformer.h"
#include "text/documents.h"
#include "text/tokenizer.h"

namespace openwork {

inline constexpr double kSampleTemperature = 0.7;  // of the text that models continue
inline constexpr int64_t kSampleTopK = 40;

struct ComparisonSettings {
  StatisticsOptions statistics;
  int64_t most_heads = 512;  // of a model that are pictured, in whole layers
  int64_t generate = 40;     // tokens of each continuation; 0: none
  int64_t capability = 24;   // prompts of each test of what a model can do; 0: none
  uint64_t seed = 0;
};

// What a model is shown, in its own tokens.
struct ComparedText {
  const Tokenizer* tokenizer = nullptr;
  std::vector<int64_t> beginning;  // tokens that stand before each text
  bool copy_begins = true;  // whether prompts of random tokens have a beginning too (not with --bos no)
  std::vector<std::vector<int64_t>> prompts;  // of the statistics
  std::vector<int64_t> shown;                 // the prompt whose heads are pictured
  TokenBlocks held_out;
};

struct ComparedModel {
  std::string name;
  // Its tokenizer's hash (text/token_shard.h): losses per token can be compared where two models have one.
  std::string vocabulary = {};
  Evaluation loss;
  ModelCost cost;                          // on the held-out text's first block
  SuiteModel capability = {};              // tests of short prompts that need no held-out text
  ModelHeads heads;                        // on the shown prompt, each of its pairs of tokens a cell
  std::optional<HeadScatter> scatter;      // none where there are fewer than two heads or tokens
  std::vector<std::string> continuations;  // of sample_openings(); empty: none were asked for
};

struct Comparison {
  std::vector<ComparedModel> models;
  StatisticsReport statistics;           // of the same models; each but the first against the first
  std::vector<HeadPlace> scatter_heads;  // chosen by the first model's statistics
};

// The openings that text is generated from.
const std::vector<std::string>& sample_openings();

// Looks at one more model.
void add_model(Comparison& comparison, const Transformer& model, const std::string& name,
               const ComparedText& text, const ComparisonSettings& settings);

// What losses are measured on: held-out text in files, or where there are none the prompts themselves.
struct LossData {
  std::vector<std::string> files;
  int64_t context = 0,
          blocks = 0;  // of files: tokens per block (0: the model's, at most 512), the most blocks (0: all)
};
TokenBlocks read_loss_blocks(const LossData& data, const std::vector<std::string>& prompts,
                             const Tokenizer& tokenizer, int32_t end_of_text, const ModelConfig& config);

// Texts as held-out blocks, each a document followed by the end-of-text token; shorter blocks than asked for
// where there is less text.
TokenBlocks blocks_of_texts(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                            int32_t end_of_text, int64_t context);

}  // namespace openwork
