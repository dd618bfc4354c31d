// A task's metric on a model, read from the residual stream: only the positions and tokens that the task
// names are ever turned into logits. Works on any number of runs of all prompts at once, and can be
// differentiated.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "analyze/circuits/task.h"
#include "model/transformer.h"

namespace openwork {

class TaskMetricReader {
 public:
  TaskMetricReader(const Transformer& model, const Task& task);

  // What a run needs: tokens up to the last one read, and of the last layer only positions from output_from
  // on.
  int64_t prompts() const { return prompts_; }
  int64_t tokens() const { return tokens_; }
  int64_t output_from() const { return output_from_; }
  Tensor clean_ids() const { return clean_ids_; }  // [P, tokens]
  Tensor corrupt_ids() const { return corrupt_ids_; }

  // x [S * P, tokens - output_from, D] after the last layer, S runs of all P prompts -> the metric [S, P].
  Tensor read(const Tensor& x) const;

 private:
  Tensor read_logits(const Tensor& stream) const;         // [S, R, D] -> [S, R]
  Tensor read_probabilities(const Tensor& stream) const;  // likewise

  const Transformer& model_;
  TaskMetric metric_;
  int64_t prompts_, tokens_, output_from_;
  Tensor clean_ids_, corrupt_ids_;
  // R reads of all prompts in one list.
  Tensor rows_;                      // [R] where each read lies in the flattened [P, tokens - output_from]
  Tensor prompt_of_;                 // [R]
  Tensor weight_;                    // [R] one over the reads of its prompt
  Tensor direction_, offset_;        // logit difference: [R, D], [R]
  Tensor entry_read_, entry_token_;  // sets: [E] the read and the token of each entry
  Tensor entry_sign_;                // [E] +1 for answers, -1 for wrongs
};

}  // namespace openwork
