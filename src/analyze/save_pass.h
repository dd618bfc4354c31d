// Saving what one pass computes, under the tensor names of the golden files: logits, attention.N, hidden.N
// (the last one after the final norm), loss, grad.<parameter>, input_ids; and any activation under its hook
// name.
#pragma once
#include <string>
#include <vector>

#include "model/transformer.h"

namespace openwork {

struct SaveRequest {
  std::string file;                      // empty: nothing is saved
  std::vector<std::string> what;         // of logits, attention, hidden, loss, grad
  std::vector<std::string> activations;  // hook names

  bool wants(const std::string& name) const;
};

void check_save_request(const SaveRequest& request);  // unknown names, or names without a file

// ids [B, T]. A model whose gradients are wanted must have been opened trainable.
void save_pass(const Transformer& model, const Tensor& ids, const SaveRequest& request);

}  // namespace openwork
