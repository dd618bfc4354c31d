#include "base/task_needs.h"

#include <algorithm>

namespace openwork {

bool TaskNeeds::needs(const HeadPlace& place) const {
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(needed);
  return std::find(order.begin(), end, place) != end;
}

}  // namespace openwork
