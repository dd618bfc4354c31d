// An interval in results: [low, high], or null where there is none (base/interval.h).
#pragma once
#include <nlohmann/json.hpp>

#include "base/interval_text.h"

namespace openwork {

inline nlohmann::json interval_json(const Interval& interval) {
  if (!exists(interval)) return nullptr;
  return {interval.low, interval.high};
}

// Back from what interval_json made.
inline Interval interval_from_json(const nlohmann::json& json) {
  if (json.is_null()) return kNoInterval;
  return {json.at(0).get<double>(), json.at(1).get<double>()};
}

}  // namespace openwork
