// Loss by position in context: the blocks that `eval` measures on, each prediction counted by how many tokens of
// its block the model has seen: 1-8, 9-16, 17-32 and so on, twice as far each time.
#include <fmt/format.h>

#include "analyze/capability/suite_tests.h"
#include "base/error.h"

namespace openwork {
namespace {

constexpr int64_t kFirstRange = 8;

}  // namespace

SuiteTest make_position_loss(const SuiteSource& source) {
  const TokenBlocks& blocks = source.blocks;
  if (blocks.count == 0) fail_input("no held-out text", "test loss", "give --data FILE");
  SuiteTest test{.score = SuiteScore::kNats, .axis = "tokens seen"};
  std::vector<size_t> bin_of;  // of the prediction after n + 1 tokens
  for (int64_t seen = 1, end = kFirstRange; seen <= blocks.context; seen = end + 1, end *= 2) {
    const int64_t last = std::min(end, blocks.context);
    bin_of.resize(static_cast<size_t>(last), test.bins.size());
    test.bins.push_back({fmt::format("{}-{}", seen, last), 0.5 * static_cast<double>(seen + last)});
  }
  for (int64_t n = 0; n < std::min(blocks.count, source.prompts); ++n) {
    const int32_t* first = blocks.tokens.data() + n * blocks.context;
    SuitePrompt prompt{.tokens = {first, first + blocks.context}};
    for (int64_t t = 0; t < blocks.context; ++t)
      prompt.reads.push_back({t, {first[t + 1]}, {}, bin_of[static_cast<size_t>(t)]});
    test.prompts.push_back(std::move(prompt));
  }
  return test;
}

}  // namespace openwork
