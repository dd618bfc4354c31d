// Which heads a figure shows, as people write it: --layers even|odd|all|0-7|0,2,5, --heads 0-15 (numbers
// within each layer) or L0H1,L5H5 (heads by name), and the order they come in.
#pragma once
#include <string>
#include <vector>

#include "analyze/heads/patterns.h"
#include "model/config.h"

namespace openwork {

// "0-7", "0,2,4-6", "even", "odd" or "all" as numbers below `count`, each once, in the order given. Bad input
// where a number is not below it; `option` names it in the error.
std::vector<int64_t> parse_number_list(const std::string& text, int64_t count, const std::string& option);

// "L0H1,L5H5" as heads of the model, each once, in the order given.
std::vector<HeadPlace> parse_head_names(const std::string& text, const ModelConfig& config,
                                        const std::string& option);

// Layers and heads together; an empty text means all. Head names leave `layers` empty.
std::vector<HeadPlace> select_heads(const std::string& layers, const std::string& heads,
                                    const ModelConfig& config);

}  // namespace openwork
