#include "analyze/logit_lens.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

namespace openwork {
namespace {

constexpr int64_t kLogitNumbers = int64_t{1} << 24;  // of one piece of a stream turned into logits: 64 MB

// Rows of a stream [1, T, D] as logits [n, V], a few at a time: a vocabulary is much wider than a stream.
template <typename Visit>
void visit_logits(const Transformer& model, const Tensor& stream, const Visit& visit) {
  const int64_t rows = std::max<int64_t>(1, kLogitNumbers / model.config().vocabulary);
  for (const Tensor& piece : stream.split(rows, 1))
    visit(model.unembed(piece)[0].to(at::kCPU, at::kFloat).contiguous());
}

std::vector<std::vector<NextToken>> name_tokens(const Tensor& logits, const Tensor& probabilities,
                                                int64_t most) {
  const auto [values, indices] = logits.topk(std::min<int64_t>(most, logits.size(1)), 1);
  const auto value = values.accessor<float, 2>();
  const auto index = indices.accessor<int64_t, 2>();
  const auto probability = probabilities.accessor<float, 2>();
  std::vector<std::vector<NextToken>> rows;
  for (int64_t row = 0; row < values.size(0); ++row) {
    std::vector<NextToken>& tokens = rows.emplace_back();
    for (int64_t n = 0; n < values.size(1); ++n)
      tokens.push_back({index[row][n], value[row][n], probability[row][index[row][n]]});
  }
  return rows;
}

void add_point(const Transformer& model, const Tensor& stream, int64_t most, LogitLens& lens) {
  auto& top = lens.top.emplace_back();
  auto& answer = lens.answer_probability.emplace_back();
  visit_logits(model, stream, [&](const Tensor& logits) {  // [n, V]
    const Tensor probabilities = logits.softmax(1);
    for (auto& tokens : name_tokens(logits, probabilities, most)) top.push_back(std::move(tokens));
    const Tensor column = probabilities.select(1, lens.answer).contiguous();
    const float* first = column.const_data_ptr<float>();
    answer.insert(answer.end(), first, first + column.size(0));
  });
}

}  // namespace

LogitLens read_lens(const Transformer& model, const std::vector<int64_t>& ids, int64_t most) {
  const at::NoGradGuard no_grad;
  LogitLens lens;
  lens.answer = likely_tokens(next_logits(model, ids), 1).front().id;
  Tensor stream = model.embed(at::tensor(ids, at::kLong).unsqueeze(0).to(model.device()));  // [1, T, D]
  lens.points.emplace_back("embedding");
  add_point(model, stream, most, lens);
  for (int64_t layer = 0; layer < model.config().layers; ++layer) {
    stream = model.run_layers(stream, layer, layer + 1);
    lens.points.push_back(fmt::format("L{}", layer));
    add_point(model, stream, most, lens);
  }
  return lens;
}

}  // namespace openwork
