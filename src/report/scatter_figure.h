// Head against head, as a scatter matrix for each model, as JSON and as lines.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/heads/head_scatter.h"
#include "draw/scatter_matrix.h"

namespace openwork {

draw::ScatterBlock make_scatter_block(const HeadScatter& scatter, const std::string& title);

// One block per model, under each other; `protocol` ends the note.
draw::ScatterMatrix make_scatter_matrix(const std::vector<HeadScatter>& models, const std::string& subtitle,
                                        const std::string& protocol);

nlohmann::json to_json(const HeadScatter& scatter);                   // the correlations, without the points
std::vector<std::string> format_scatter(const HeadScatter& scatter);  // likewise, a line a pair

}  // namespace openwork
