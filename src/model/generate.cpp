#include "model/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace openwork {
namespace {

using Ids = std::vector<int64_t>;
using Rows = std::vector<size_t>;  // prompts that share a batch

void check_room(const Transformer& model, const Ids& prompt, int64_t tokens) {
  const auto length = static_cast<int64_t>(prompt.size());
  if (length == 0) fail_input("the prompt is empty", "prompt", "give at least one token");
  if (length + tokens > model.config().context) {
    fail_input(fmt::format("{} prompt tokens and {} new ones, but the model's context is {}", length, tokens,
                           model.config().context),
               "prompt", "use a shorter prompt or generate fewer tokens");
  }
}

// Only the fewest most likely that have probability top_p together; the first of them always.
Tensor keep_top_p(const Tensor& probabilities, double top_p) {
  const auto [sorted, order] = probabilities.sort(0, /*descending=*/true);
  const Tensor before = sorted.cumsum(0) - sorted;  // what those ahead of each have
  const Tensor spare = before.ge(top_p).slice(0, 1);
  return probabilities.index_fill(0, order.slice(0, 1).masked_select(spare), 0);
}

// Prompts of like length together: what a longer one has more is read a token at a time.
std::vector<Rows> group_by_length(const std::vector<Ids>& prompts) {
  constexpr size_t kMore = 64;
  Rows order(prompts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return prompts[a].size() < prompts[b].size(); });
  std::vector<Rows> groups;
  for (const size_t n : order) {
    const bool fits = !groups.empty() && prompts[n].size() <= prompts[groups.back().front()].size() + kMore;
    if (!fits) groups.emplace_back();
    groups.back().push_back(n);
  }
  return groups;
}

// One batch: texts[r] is row r's prompt and what was made of it.
class BatchRun {
 public:
  BatchRun(const Transformer& model, const std::vector<Ids>& prompts, Rows rows,
           const GenerateOptions& options, const std::function<bool(size_t, int64_t)>& visit)
      : model_(model), rows_(std::move(rows)), options_(options), visit_(visit) {
    for (const size_t n : rows_)
      texts_.push_back(prompts[n]), lengths_.push_back(static_cast<int64_t>(prompts[n].size()));
    going_.assign(rows_.size(), options.tokens > 0);
  }

  void run(bool cached, std::vector<Ids>& made) {
    const int64_t shortest = *std::min_element(lengths_.begin(), lengths_.end()),
                  longest = *std::max_element(lengths_.begin(), lengths_.end());
    KeyValueCache cache(model_.config().layers, longest + options_.tokens);
    Tensor fresh = take(0, shortest);
    for (int64_t position = shortest; any_going(); ++position) {
      const ForwardOptions forward{.cache = cached ? &cache : nullptr, .last_only = true};
      step(model_.forward(fresh, forward), position);
      if (any_going()) fresh = cached ? take(position, 1) : take(0, position + 1);
    }
    for (size_t r = 0; r < rows_.size(); ++r)
      made[rows_[r]].assign(texts_[r].begin() + lengths_[r], texts_[r].end());
  }

 private:
  bool any_going() const { return std::find(going_.begin(), going_.end(), true) != going_.end(); }

  // Tokens [first, first + count) of every row; a row that has ended is filled up with what nobody reads.
  Tensor take(int64_t first, int64_t count) const {
    Ids ids;
    for (const Ids& text : texts_) {
      for (int64_t n = first; n < first + count; ++n)
        ids.push_back(n < static_cast<int64_t>(text.size()) ? text[static_cast<size_t>(n)] : 0);
    }
    return at::tensor(ids, at::kLong).view({static_cast<int64_t>(texts_.size()), count}).to(model_.device());
  }

  // logits [R, 1, V] say what stands at `position`; rows whose prompt goes on know it already.
  void step(const Tensor& logits, int64_t position) {
    const Tensor last = logits.select(1, logits.size(1) - 1);
    const Tensor largest = options_.temperature <= 0 ? last.argmax(-1).cpu() : Tensor();
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (!going_[r] || position < lengths_[r]) continue;
      const auto row = static_cast<int64_t>(r);
      const int64_t made = position - lengths_[r];
      const int64_t token =
          largest.defined() ? largest[row].item<int64_t>() : choose_token(last[row], options_, made);
      texts_[r].push_back(token);
      going_[r] = made + 1 < options_.tokens && !(options_.stop_at && token == *options_.stop_at);
      if (visit_ && !visit_(rows_[r], token)) going_[r] = false;
    }
  }

  const Transformer& model_;
  Rows rows_;
  const GenerateOptions& options_;
  const std::function<bool(size_t, int64_t)>& visit_;
  std::vector<Ids> texts_;
  Ids lengths_;  // of the prompts
  std::vector<bool> going_;
};

}  // namespace

int64_t choose_token(const Tensor& logits, const GenerateOptions& options, int64_t step) {
  if (options.temperature <= 0) return logits.argmax().item<int64_t>();
  Tensor wide = logits.to(at::kDouble).cpu();
  wide = (wide - wide.max()) / options.temperature;  // of the largest 0, however small the temperature
  if (options.top_k > 0 && options.top_k < wide.size(0)) {
    const Tensor kept = std::get<0>(wide.topk(options.top_k));
    wide = wide.masked_fill(wide < kept[-1], -std::numeric_limits<double>::infinity());
  }
  Tensor probabilities = wide.softmax(0);
  if (options.top_p < 1) probabilities = keep_top_p(probabilities, options.top_p);
  const Tensor cumulative = probabilities.cumsum(0);
  const double u =
      uniform_of(philox(options.seed, static_cast<uint64_t>(step)).word[0]) * cumulative[-1].item<double>();
  const int64_t token = (cumulative <= u).sum().item<int64_t>();
  return std::min(token, logits.size(0) - 1);
}

std::vector<Ids> generate_all(const Transformer& model, const std::vector<Ids>& prompts,
                              const GenerateOptions& options,
                              const std::function<bool(size_t, int64_t)>& visit) {
  const at::NoGradGuard no_grad;
  for (const Ids& prompt : prompts) check_room(model, prompt, options.tokens);
  const Rope& rope = model.config().rope;
  std::vector<Ids> made(prompts.size());
  for (const Rows& rows : group_by_length(prompts)) {
    const auto most = static_cast<int64_t>(prompts[rows.back()].size()) + options.tokens;
    // Dynamic frequencies change with the length of the text, so cached keys would be those of a shorter one.
    const bool outgrown = rope.kind == "dynamic" && most > rope.original_context;
    BatchRun(model, prompts, rows, options, visit).run(options.use_cache && !outgrown, made);
  }
  return made;
}

std::vector<int64_t> generate(const Transformer& model, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options, const std::function<void(int64_t)>& visit) {
  const auto go_on = [&](size_t, int64_t token) {
    if (visit) visit(token);
    return true;
  };
  return generate_all(model, {prompt}, options, go_on).front();
}

}  // namespace openwork
