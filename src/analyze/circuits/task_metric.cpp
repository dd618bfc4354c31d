#include "analyze/circuits/task_metric.h"

#include <ATen/ATen.h>

namespace openwork {
namespace {

Tensor stack_ids(const Task& task, bool clean, int64_t tokens, at::Device device) {
  std::vector<Tensor> rows;
  for (const TaskPrompt& prompt : task.prompts) {
    rows.push_back(at::tensor(clean ? prompt.clean : prompt.corrupt, at::kLong).narrow(0, 0, tokens));
  }
  return at::stack(rows).to(device);
}

}  // namespace

TaskMetricReader::TaskMetricReader(const Transformer& model, const Task& task)
    : model_(model),
      metric_(task.metric),
      prompts_(static_cast<int64_t>(task.prompts.size())),
      tokens_(task.last_read() + 1),
      output_from_(task.first_read()),
      clean_ids_(stack_ids(task, true, tokens_, model.device())),
      corrupt_ids_(stack_ids(task, false, tokens_, model.device())) {
  std::vector<int64_t> rows, prompt_of, answers, wrongs, entry_read, entry_token;
  std::vector<double> weight, entry_sign;
  for (int64_t p = 0; p < prompts_; ++p) {
    const std::vector<TaskRead>& reads = task.prompts[static_cast<size_t>(p)].reads;
    for (const TaskRead& read : reads) {
      const auto index = static_cast<int64_t>(rows.size());
      rows.push_back(p * (tokens_ - output_from_) + read.position - output_from_);
      prompt_of.push_back(p);
      weight.push_back(1.0 / static_cast<double>(reads.size()));
      answers.push_back(read.answers.front());
      wrongs.push_back(read.wrongs.front());
      for (const int64_t token : read.answers)
        entry_read.push_back(index), entry_token.push_back(token), entry_sign.push_back(1);
      for (const int64_t token : read.wrongs)
        entry_read.push_back(index), entry_token.push_back(token), entry_sign.push_back(-1);
    }
  }
  const auto on_device = [&](const auto& list, at::ScalarType dtype) {
    return at::tensor(list, dtype).to(model.device());
  };
  const at::ScalarType wide = model.dtype() == at::kDouble ? at::kDouble : at::kFloat;
  rows_ = on_device(rows, at::kLong);
  prompt_of_ = on_device(prompt_of, at::kLong);
  weight_ = on_device(weight, wide);
  entry_read_ = on_device(entry_read, at::kLong);
  entry_token_ = on_device(entry_token, at::kLong);
  entry_sign_ = on_device(entry_sign, wide);
  if (metric_ == TaskMetric::kProbabilityDifference) return;
  const Tensor answer_ids = on_device(answers, at::kLong), wrong_ids = on_device(wrongs, at::kLong);
  const auto difference = [&](const Tensor& table) {
    return table.index_select(0, answer_ids).to(wide) - table.index_select(0, wrong_ids).to(wide);
  };
  direction_ = difference(model.unembedding());
  if (model.unembedding_bias().defined()) offset_ = difference(model.unembedding_bias());
}

Tensor TaskMetricReader::read_logits(const Tensor& stream) const {
  const Tensor difference = (stream.to(direction_.dtype()) * direction_).sum(-1);  // [S, R]
  return offset_.defined() ? difference + offset_ : difference;
}

Tensor TaskMetricReader::read_probabilities(const Tensor& stream) const {
  std::optional<Tensor> bias;
  if (model_.unembedding_bias().defined()) bias = model_.unembedding_bias();
  const Tensor logits = at::linear(stream, model_.unembedding(), bias).to(weight_.dtype());  // [S, R, V]
  const Tensor flat = logits.softmax(-1).flatten(1);                                         // [S, R V]
  const Tensor chosen =
      flat.index_select(1, entry_read_ * logits.size(-1) + entry_token_) * entry_sign_;  // [S, E]
  return at::zeros({stream.size(0), stream.size(1)}, chosen.options()).index_add(1, entry_read_, chosen);
}

Tensor TaskMetricReader::read(const Tensor& x) const {
  const Tensor by_run = x.reshape({-1, prompts_ * (tokens_ - output_from_), x.size(-1)});  // [S, P T, D]
  const Tensor stream = model_.apply_norm(model_.final_norm(), by_run.index_select(1, rows_));
  const Tensor values =
      (metric_ == TaskMetric::kLogitDifference ? read_logits(stream) : read_probabilities(stream)) * weight_;
  return at::zeros({values.size(0), prompts_}, values.options()).index_add(1, prompt_of_, values);
}

}  // namespace openwork
