// What a whole head costs beside its edges (docs/method.md, 2): a concave function phi of its penalty p, the
// mean of sigmoid(g) over causal pairs, which is steepest where a head is nearly closed and so closes it:
//   sqrt   phi(p) = sqrt(p + 1e-6)
//   log    phi(p) = log(1 + p/e) / log(1 + 1/e),  from 0 at a closed head to 1 at an open one
// e, the knee, is 1e-3 unless said: the smaller, the more of the price is that of a head's last few edges.
// Over a sample: phi of the head's penalty there, averaged over samples. Over the batch: phi of its mean over
// the whole batch; a pass knows only its own part of that, so each head's penalty is weighed by phi' of its
// mean in the step before, a constant of this step, and a step does not depend on how its batch is cut.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace openwork {

using at::Tensor;

enum class HeadForm { kSqrt, kLog };
HeadForm parse_head_form(const std::string& name, const std::string& where);
const char* head_form_name(HeadForm form);

inline constexpr double kHeadKnee = 1e-3;
Tensor head_cost(const Tensor& penalty, HeadForm form, double knee = kHeadKnee);   // phi, elementwise
Tensor head_slope(const Tensor& penalty, HeadForm form, double knee = kHeadKnee);  // phi'

}  // namespace openwork
