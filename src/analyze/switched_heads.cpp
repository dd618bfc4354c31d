#include "analyze/switched_heads.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <map>

#include "analyze/next_tokens.h"
#include "base/error.h"

namespace openwork {
namespace {

using HeadsByLayer = std::map<int64_t, std::vector<int64_t>>;

// z of these layers on the other prompt: [1, T, H, d].
std::map<int64_t, Tensor> read_outputs(const Transformer& model, const std::vector<int64_t>& ids,
                                       const HeadsByLayer& heads) {
  std::map<int64_t, Tensor> outputs;
  Taps taps;
  for (const auto& [layer, unused] : heads)
    taps.read({Site::kZ, layer}, [&outputs, n = layer](const Tensor& z) { outputs[n] = z; });
  next_logits(model, ids, {.taps = &taps});
  return outputs;
}

}  // namespace

Tensor switched_logits(const Transformer& model, const std::vector<int64_t>& ids,
                       const std::vector<HeadPlace>& off, const std::vector<int64_t>& instead) {
  if (!instead.empty() && instead.size() != ids.size()) {
    fail_input(fmt::format("{} tokens, but the prompt has {}", instead.size(), ids.size()), "corrupt prompt",
               "make both equally long in tokens");
  }
  HeadsByLayer heads;
  for (const HeadPlace& place : off) heads[place.layer].push_back(place.head);
  std::map<int64_t, Tensor> outputs;
  if (!instead.empty()) outputs = read_outputs(model, instead, heads);
  Taps taps;
  for (const auto& [layer, numbers] : heads) {
    const Tensor replacement = instead.empty() ? Tensor() : outputs.at(layer);
    taps.replace({Site::kZ, layer}, [numbers = numbers, replacement](const Tensor& z) {  // [1, T, H, d]
      Tensor changed = z.clone();
      for (const int64_t head : numbers) {
        Tensor own = changed.select(2, head);
        replacement.defined() ? own.copy_(replacement.select(2, head)) : own.zero_();
      }
      return changed;
    });
  }
  return next_logits(model, ids, {.taps = &taps});
}

}  // namespace openwork
