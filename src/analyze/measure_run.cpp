#include "analyze/measure_run.h"

#include <algorithm>
#include <memory>

#include "base/progress.h"

namespace openwork {
namespace {

TokenBlocks first_blocks(const TokenBlocks& blocks, int64_t count) {
  TokenBlocks first = blocks;
  first.count = std::min(count, blocks.count);
  const auto tokens = static_cast<size_t>(first.count * first.context + 1);
  first.tokens.resize(tokens), first.document.resize(tokens), first.bytes.resize(tokens);
  return first;
}

}  // namespace

Evaluate make_evaluate(const TokenBlocks& blocks, const HeldOutOptions& options) {
  const auto few = std::make_shared<const TokenBlocks>(first_blocks(blocks, kBlocksOnTheWay));
  return [&blocks, few, options](const Transformer& model, const std::string& name, HeldOutPart part) {
    if (part == HeldOutPart::kOnTheWay) {
      HeldOutOptions brief;
      brief.seed = options.seed, brief.ranks = options.ranks;
      return evaluate_held_out(model, *few, brief);
    }
    Progress progress("measure " + name, static_cast<uint64_t>(blocks.count), " blocks");
    HeldOutOptions shown = options;
    shown.advance = [&](int64_t count) { progress.advance(static_cast<uint64_t>(count)); };
    return evaluate_held_out(model, blocks, shown);
  };
}

}  // namespace openwork
