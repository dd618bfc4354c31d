// Every head's effect on a task as a heat map, layers down and heads across, the models side by side on one
// scale.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "draw/figure.h"
#include "report/comparison_record.h"

namespace openwork {

// `protocol` ends the note.
draw::Figure draw_effects(const TaskRecord& task, const std::string& protocol);

// The same of one model, from what `ablate --json` writes of all its heads.
draw::Figure draw_effects(const nlohmann::json& result, const std::string& model);

}  // namespace openwork
