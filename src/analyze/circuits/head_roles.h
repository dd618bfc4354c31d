// What a head does in a task, by where it looks and what it writes: its attention on the clean prompts to
// places that mean something (the token before, an earlier copy of the token or what followed it, the task's
// own places), and its direct effect, the metric lost when its output alone is taken out of the final stream.
#pragma once
#include <string>
#include <vector>

#include "analyze/circuits/ablation.h"

namespace openwork {

struct HeadRole {
  HeadPlace head;
  std::string role;      // of role_names(), or "other"
  double attention = 0;  // mean attention to the place that gave the role
  double direct_effect = 0;
  std::vector<double> attentions;  // one per entry of the task's attention kinds (attention_kinds)
};

// A role needs this much mean attention to its place.
inline constexpr double kRoleAttention = 0.25;

// Kinds of places a task has, the roles they give: "previous token", "duplicate token", "induction", and
// where the task names its places "mover" (end to the answer), "subject inhibition" (end to the repeated
// name), ...
std::vector<std::string> attention_kinds(const Task& task);

std::vector<HeadRole> describe_heads(const Transformer& model, const Task& task, AblationRunner& runner,
                                     const std::vector<HeadPlace>& heads);

}  // namespace openwork
