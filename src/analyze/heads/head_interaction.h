// Which heads read what earlier heads wrote (docs/method.md, 3). For a head e and a head h of a later layer,
// with the normalisation between them held as it was on the prompt, e's output is one summand of h's query
// vectors (and key, and value vectors):   share = |W (e's part of the input)| / |W (the whole input)|,
// norms over all positions i >= 1, W the projection of h. A pair interacts strongly on a prompt where its
// largest share of the three is at least the level and the later head is not blank there.
//   InteractionMeter meter(model);
//   for each prompt: Taps taps; meter.add_taps(taps); model.forward(...); meter.end_prompt(blank);
//   Interactions result = meter.finish(level);
#pragma once
#include <vector>

#include "analyze/heads/head_records.h"
#include "model/transformer.h"

namespace openwork {

inline constexpr double kInteractionLevel = 0.25;

class InteractionMeter {
 public:
  explicit InteractionMeter(const Transformer& model) : model_(model) {}

  void add_taps(Taps& taps);
  void end_prompt(const std::vector<bool>& blank);  // [all heads of the model], on this prompt
  Interactions finish(double level) const;

 private:
  // What a prompt leaves behind: small next to its patterns.
  struct Prompt {
    std::vector<Tensor> z;      // per layer [H, T, d]
    std::vector<Tensor> scale;  // per layer [T, 1], of the norm at its attention
    std::vector<Tensor> input;  // per layer [T, D], what q, k and v are made from
    std::vector<bool> blank;
  };
  struct Sums;

  void add_layer_pair(int64_t earlier, int64_t later, double level, Sums& sums) const;

  const Transformer& model_;
  Prompt current_;
  std::vector<Prompt> prompts_;
};

}  // namespace openwork
