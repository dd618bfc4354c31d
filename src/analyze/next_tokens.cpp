#include "analyze/next_tokens.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace openwork {
namespace {

std::vector<NextToken> read_tokens(const Tensor& logits, const std::vector<int64_t>& ids) {
  const Tensor wide = logits.to(at::kCPU, at::kDouble).contiguous();
  const Tensor probabilities = wide.softmax(0);
  const double *logit = wide.const_data_ptr<double>(), *probability = probabilities.const_data_ptr<double>();
  std::vector<NextToken> tokens;
  for (const int64_t id : ids) tokens.push_back({id, logit[id], probability[id]});
  return tokens;
}

}  // namespace

Tensor next_logits(const Transformer& model, const std::vector<int64_t>& ids, ForwardOptions options) {
  const at::NoGradGuard no_grad;
  options.last_only = true;
  const Tensor batch = at::tensor(ids, at::kLong).unsqueeze(0).to(model.device());
  return model.forward(batch, options)[0][0].to(at::kCPU, at::kDouble);
}

std::vector<NextToken> likely_tokens(const Tensor& logits, int64_t most) {
  const Tensor wide = logits.to(at::kCPU, at::kDouble);
  const Tensor indices = std::get<1>(wide.topk(std::min<int64_t>(most, wide.size(0)))).contiguous();
  const int64_t* first = indices.const_data_ptr<int64_t>();
  return read_tokens(wide, {first, first + indices.size(0)});
}

std::vector<NextToken> find_tokens(const Tensor& logits, const std::vector<NextToken>& tokens) {
  std::vector<int64_t> ids;
  for (const NextToken& token : tokens) ids.push_back(token.id);
  return read_tokens(logits, ids);
}

}  // namespace openwork
