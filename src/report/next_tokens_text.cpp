#include "report/next_tokens_text.h"

#include <fmt/format.h>

#include "base/token_marks.h"

namespace openwork {

std::vector<std::string> format_next_tokens(const std::vector<NextToken>& tokens, const TokenText& text) {
  std::vector<std::string> lines = {
      fmt::format("{:>3}  {:>9}  {:>9}  {:>7}  token", "", "share", "logit", "id")};
  for (const NextToken& token : tokens)
    lines.push_back(fmt::format("{:>3}  {:>7.3f} %  {:>9.4f}  {:>7}  {}", lines.size(),
                                100 * token.probability, token.logit, token.id, quote_token(text(token.id))));
  return lines;
}

}  // namespace openwork
