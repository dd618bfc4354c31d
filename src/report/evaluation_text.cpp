#include "report/evaluation_text.h"

#include <fmt/format.h>

#include "base/interval_text.h"

namespace openwork {

std::string format_evaluation_header() {
  return fmt::format("{:<24} {:>8} {:<16} {:>8} {:>11} {:>6} {:>7} {:>9} {:>6}", "model", "nats/tok",
                     "95 % interval", "bits/B", "kept edges", "open", "closed", "tokens", "docs");
}

std::vector<std::string> format_evaluation(const std::string& name, const Evaluation& result) {
  const std::string bits = result.bits_per_byte > 0 ? fmt::format("{:.4f}", result.bits_per_byte) : "-";
  std::vector<std::string> lines = {
      fmt::format("{:<24} {:>8.4f} {:<16} {:>8} {:>9.3f} % {:>6} {:>7} {:>9} {:>6}", name,
                  result.nats_per_token, interval_text({result.low, result.high}, 4), bits,
                  100 * result.kept_edges, result.open_heads, result.closed_heads, result.tokens,
                  result.documents),
      "  kept: " + describe_short_texts(result)};
  if (const std::string fullest = describe_fullest_heads(result); !fullest.empty())
    lines.push_back("  " + fullest);
  if (result.documents < 2) lines.push_back("  one document: no interval");
  return lines;
}

}  // namespace openwork
