// A graph (report/trace_graph.h) as the text of a file. Nearly all of a large one are its links and their heads, so
// these are written short: a link's weight with the digits that make up its float32 and no more, heads as
// [layer, head, weight] with six digits. Everything else is as in the JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace openwork {

// `graph` is an object with an array of objects under "links". Heads may be written either way. Fails (bad input) where one
// of its numbers is not finite, or a link's weight no float32: JSON has no word for them.
std::string graph_text(const nlohmann::json& graph);

}  // namespace openwork
