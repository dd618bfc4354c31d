// The models a server answers for: loaded once, read by all requests. Each has its tokenizer, and transcoders where
// its folder has them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/trace/traced_model.h"

namespace openwork::serve {

class ServedModels {
 public:
  // At least one, each with a tokenizer, no two of one name.
  explicit ServedModels(std::vector<TracedModel> models);

  const std::vector<TracedModel>& all() const { return models_; }
  const TracedModel& find(const std::string& name) const;  // fails as bad input
  // Those of these names, in the order in which they are served; no names: all.
  std::vector<const TracedModel*> select(const std::vector<std::string>& names) const;

 private:
  std::vector<TracedModel> models_;
};

// A text in the model's tokens; fails where it is empty or longer than the context.
std::vector<int64_t> tokenise(const TracedModel& model, const std::string& text);
std::vector<std::string> token_texts(const TracedModel& model, const std::vector<int64_t>& ids);
// Heads by name, each once, in the order given; none: all of the model, layer by layer.
std::vector<HeadPlace> read_heads(const TracedModel& model, const std::vector<std::string>& names);

// {"name", "architecture", "layers", "heads", "head_size", "context", "vocabulary", "gated", "gate", "device",
// "features"}
nlohmann::json describe_served(const TracedModel& model);

}  // namespace openwork::serve
