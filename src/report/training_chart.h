// The picture of a run: loss (training, target, held out) above, kept edges below, over the tokens trained
// on.
#pragma once
#include "draw/figure.h"
#include "train/report.h"

namespace openwork {

draw::Figure draw_training(const RunReport& report);

}  // namespace openwork
