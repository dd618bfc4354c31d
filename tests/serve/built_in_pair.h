// The embedded pair, as a server opens it.
#pragma once
#include <string>
#include <vector>

#include "analyze/trace/traced_model.h"
#include "model/load.h"

namespace openwork::serve {

inline TracedModel open_built_in(const std::string& name) {
  TracedModel traced = attach_transcoders(load_model("models/" + name, {}), name, name);
  traced.tokenizer = Tokenizer::from_file("models/" + name);
  const std::vector<int32_t>& prefix = traced.tokenizer->prefix();
  traced.beginning.assign(prefix.begin(), prefix.end());
  return traced;
}

inline std::vector<TracedModel> open_pair() {
  std::vector<TracedModel> models;
  models.push_back(open_built_in("openwork-8m"));
  models.push_back(open_built_in("openwork-8m-sparse"));
  return models;
}

}  // namespace openwork::serve
