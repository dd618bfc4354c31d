// The part of `compare` that traces the page's prompt: which heads carry what moves between two tokens, in
// each model.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/compare_model.h"
#include "cli/trace_model.h"
#include "model/transformer.h"

namespace openwork {

class TraceComparison {
 public:
  explicit TraceComparison(const CompareOptions& options);

  // A prompt that cannot be traced here (one token, too many, another dtype than fp32) is left out with a
  // note.
  void add_model(const Transformer& model, const std::string& name);

  std::optional<TraceRecord> finish(const nlohmann::json& protocol) const;

 private:
  void leave_out(const std::string& why);

  TraceOptions options_;
  GivenPrompts given_;
  std::vector<std::string> transcoders_;  // one per model; empty: MLPs are nodes
  std::vector<ModelTrace> traces_;
  bool left_out_ = false;
};

}  // namespace openwork
