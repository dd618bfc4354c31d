// A study of interventions as JSON (docs/json.md, trace).
#pragma once
#include <nlohmann/json.hpp>

#include "analyze/trace/intervention_study.h"

namespace openwork {

nlohmann::json to_json(const TraceIntervention& change);
nlohmann::json to_json(const InterventionStudy& study);
nlohmann::json to_json(const StudyDifference& difference);

}  // namespace openwork
