// What a model would say next, as the table a person reads.
#pragma once
#include <string>
#include <vector>

#include "report/next_tokens_json.h"

namespace openwork {

std::vector<std::string> format_next_tokens(const std::vector<NextToken>& tokens, const TokenText& text);

}  // namespace openwork
