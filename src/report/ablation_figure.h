// Every head's effect on a task as a heat map, layers down and heads across, the models side by side on one
// scale.
#pragma once
#include "draw/figure.h"
#include "report/comparison_record.h"

namespace openwork {

draw::Figure draw_effects(const TaskRecord& task);

}  // namespace openwork
