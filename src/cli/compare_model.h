// What `compare` asks of one model: its loss, every head's picture on the prompt, statistics, the heads'
// values for the scatter matrix, and text. Models are looked at one after the other, so that only one is in
// memory.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/heads/patterns.h"
#include "cli/common.h"
#include "cli/prompt_source.h"
#include "cli/statistics.h"
#include "draw/head_grid.h"
#include "draw/scatter_matrix.h"
#include "report/comparison_record.h"

namespace openwork {

struct CompareOptions {
  CommonOptions common;
  std::vector<std::string> models, data, tasks;
  std::string prompt = "When Mary and John went to the store, John gave a drink to";
  std::string prompts = "sample", out = "report";
  int64_t context = 0, blocks = 0, generate = 40, most_heads = 512, task_prompts = 0;
  StatisticsOptions statistics;
  bool no_interactions = false, no_trace = false;
};

struct ModelFindings {
  std::string device;
  Evaluation loss;
  HeadSheet sheet;
  draw::HeadBlock block;            // the same heads for the figure
  std::vector<std::string> tokens;  // of the prompt, marked
  ModelStatistics statistics;
  std::vector<HeadPlace> scatter_heads;
  std::optional<draw::ScatterBlock> scatter;
  std::vector<std::string> continuations;
};

// The openings that text is generated from.
const std::vector<std::string>& sample_openings();

// `scatter_heads`: those of the first model; empty: chosen here.
ModelFindings look_at_model(const Transformer& model, const std::string& name, const CompareOptions& options,
                            const GivenPrompts& given, const std::vector<HeadPlace>& scatter_heads);

// What the losses were measured on, in words.
std::string describe_loss_data(const CompareOptions& options);

}  // namespace openwork
