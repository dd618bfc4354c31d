// The part of `compare` that traces the page's prompt: which heads carry what moves between two tokens, in
// each model.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/prompts.h"
#include "analyze/trace/model_trace.h"
#include "model/transformer.h"
#include "report/comparison_record.h"

namespace openwork {

class TraceComparison {
 public:
  // `models` in the order they will be added; not `wanted`: nothing is traced. Nor is it where models are not
  // `exact` (in another dtype than fp32), with a note.
  TraceComparison(std::string prompt, const std::vector<std::string>& models, bool wanted, bool exact);

  // `prompt` is the prompt alone in this model's tokens. One that cannot be traced here (one token, too many)
  // is left out with a note.
  void add_model(const Transformer& model, const std::string& name, const std::string& title,
                 TokenPrompts prompt);

  std::optional<TraceRecord> finish(const nlohmann::json& protocol) const;
  // What POST /api/trace would answer (docs/serve.md), for the viewer in the page; null where nothing was traced.
  nlohmann::json answer() const;

 private:
  void leave_out(const std::string& why);

  std::string prompt_;
  std::vector<FeatureFolder> transcoders_;  // one per model; none: MLPs are nodes
  std::vector<ModelTrace> traces_;
  bool left_out_ = false;
};

}  // namespace openwork
