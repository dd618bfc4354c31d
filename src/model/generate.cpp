#include "model/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"

namespace openwork {
namespace {

Tensor ids_tensor(const std::vector<int64_t>& ids, const at::Device& device) {
  return at::tensor(ids, at::kLong).unsqueeze(0).to(device);  // [1, T]
}

// A token from logits [V]: the largest, or one drawn with the step's own random number.
int64_t choose_token(const Tensor& logits, const GenerateOptions& options, int64_t step) {
  if (options.temperature <= 0) return logits.argmax().item<int64_t>();
  Tensor wide = logits.to(at::kDouble).cpu() / options.temperature;
  if (options.top_k > 0 && options.top_k < wide.size(0)) {
    const Tensor kept = std::get<0>(wide.topk(options.top_k));
    wide = wide.masked_fill(wide < kept[-1], -std::numeric_limits<double>::infinity());
  }
  const Tensor cumulative = wide.softmax(0).cumsum(0);
  const double u =
      uniform_of(philox(options.seed, static_cast<uint64_t>(step)).word[0]) * cumulative[-1].item<double>();
  const int64_t token = (cumulative <= u).sum().item<int64_t>();
  return std::min(token, logits.size(0) - 1);
}

}  // namespace

std::vector<int64_t> generate(const Transformer& model, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options, const std::function<void(int64_t)>& visit) {
  const at::NoGradGuard no_grad;
  const int64_t length = static_cast<int64_t>(prompt.size());
  if (length == 0) fail_input("the prompt is empty", "prompt", "give at least one token");
  if (length + options.tokens > model.config().context) {
    fail_input(fmt::format("{} prompt tokens and {} new ones, but the model's context is {}", length,
                           options.tokens, model.config().context),
               "prompt", "use a shorter prompt or generate fewer tokens");
  }
  // Dynamic frequencies change with the length of the text, so cached keys would be those of a shorter one.
  const Rope& rope = model.config().rope;
  const bool outgrown = rope.kind == "dynamic" && length + options.tokens > rope.original_context;
  const bool cached = options.use_cache && !outgrown;
  KeyValueCache cache(model.config().layers, length + options.tokens);
  std::vector<int64_t> text = prompt, fresh = prompt, made;
  for (int64_t step = 0; step < options.tokens; ++step) {
    const ForwardOptions forward{.cache = cached ? &cache : nullptr, .last_only = true};
    const Tensor logits = model.forward(ids_tensor(cached ? fresh : text, model.device()), forward);
    const int64_t token = choose_token(logits[0][-1], options, step);
    made.push_back(token);
    text.push_back(token);
    fresh = {token};
    if (visit) visit(token);
    if (options.stop_at && token == *options.stop_at) break;
  }
  return made;
}

}  // namespace openwork
