// The line that a progress bar draws on a terminal, and how other output goes round it:
//   eval openwork-8m [########------------] 20 / 50 blocks (40 %), 3 s left, loss 3.281
#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "base/progress.h"

namespace openwork {

// As wide as it may be, with the end cut off, and without the bar where that leaves little of the rest.
std::string progress_line(const ProgressState& state, std::optional<double> seconds_left, size_t columns);

// How wide the terminal of standard error is; 80 where it does not say.
size_t terminal_columns();

// Takes the bar that is being drawn off its line: before anything else is written to the terminal. The bar comes back
// with its next step.
void clear_progress_line();

}  // namespace openwork
