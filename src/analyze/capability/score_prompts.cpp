#include "analyze/capability/score_prompts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <map>

namespace openwork {
namespace {

using Batch = std::vector<size_t>;  // prompts of one length

std::vector<Batch> make_batches(const std::vector<SuitePrompt>& prompts, int64_t batch_tokens) {
  std::map<size_t, std::vector<size_t>> by_length;
  for (size_t n = 0; n < prompts.size(); ++n) by_length[prompts[n].tokens.size()].push_back(n);
  std::vector<Batch> batches;
  for (const auto& [length, members] : by_length) {
    const size_t size = std::max<size_t>(1, static_cast<size_t>(batch_tokens) / std::max<size_t>(length, 1));
    for (size_t first = 0; first < members.size(); first += size) {
      const auto from = members.begin() + static_cast<std::ptrdiff_t>(first);
      batches.emplace_back(from, from + static_cast<std::ptrdiff_t>(std::min(size, members.size() - first)));
    }
  }
  return batches;
}

// Lists of tokens of different lengths as [R, longest], and where they have none.
struct TokenSets {
  Tensor ids, absent;
};

TokenSets pack_sets(const std::vector<const SuiteRead*>& reads, std::vector<int64_t> SuiteRead::*list,
                    at::Device device) {
  size_t longest = 1;
  for (const SuiteRead* read : reads) longest = std::max(longest, (read->*list).size());
  const auto rows = static_cast<int64_t>(reads.size()), columns = static_cast<int64_t>(longest);
  Tensor ids = at::zeros({rows, columns}, at::kLong), absent = at::ones({rows, columns}, at::kBool);
  auto id = ids.accessor<int64_t, 2>();
  auto none = absent.accessor<bool, 2>();
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<int64_t>& tokens = reads[static_cast<size_t>(r)]->*list;
    for (size_t n = 0; n < tokens.size(); ++n) {
      id[r][static_cast<int64_t>(n)] = tokens[n];
      none[r][static_cast<int64_t>(n)] = false;
    }
  }
  return {ids.to(device), absent.to(device)};
}

// How likely a set is on the scale of logits: its likeliest token's, or all of them together.
Tensor weigh_set(const Tensor& logits, const TokenSets& set, bool together) {
  const Tensor of_set =
      logits.gather(1, set.ids).masked_fill(set.absent, -std::numeric_limits<double>::infinity());
  return together ? of_set.logsumexp(1) : of_set.amax(1);
}

// logits [R, V] -> scores [R].
Tensor score_logits(const Tensor& logits, const std::vector<const SuiteRead*>& reads, SuiteScore score) {
  const TokenSets answers = pack_sets(reads, &SuiteRead::answers, logits.device());
  if (score == SuiteScore::kTop)
    return (logits.argmax(1, true) == answers.ids).logical_and(answers.absent.logical_not()).any(1);
  if (score == SuiteScore::kNats)
    return at::cross_entropy_loss(logits, answers.ids.select(1, 0), {}, at::Reduction::None);
  const TokenSets wrongs = pack_sets(reads, &SuiteRead::wrongs, logits.device());
  const bool together = score == SuiteScore::kSum;
  return weigh_set(logits, answers, together) > weigh_set(logits, wrongs, together);
}

// Where each read lies in x [B, T - from, D] flattened to rows.
struct BatchReads {
  std::vector<const SuiteRead*> reads;
  std::vector<int64_t> prompt, rows, index;  // index: among all reads of the test
  int64_t from = 0;
};

BatchReads list_reads(const SuiteTest& test, const Batch& batch, const std::vector<int64_t>& first_read) {
  BatchReads list;
  const auto tokens = static_cast<int64_t>(test.prompts[batch.front()].tokens.size());
  list.from = tokens;
  for (const size_t n : batch) {
    for (const SuiteRead& read : test.prompts[n].reads) list.from = std::min(list.from, read.position);
  }
  for (size_t b = 0; b < batch.size(); ++b) {
    const std::vector<SuiteRead>& reads = test.prompts[batch[b]].reads;
    for (size_t r = 0; r < reads.size(); ++r) {
      list.reads.push_back(&reads[r]);
      list.rows.push_back(static_cast<int64_t>(b) * (tokens - list.from) + reads[r].position - list.from);
      list.index.push_back(first_read[batch[b]] + static_cast<int64_t>(r));
    }
  }
  return list;
}

void score_batch(const Transformer& model, const SuiteTest& test, const Batch& batch,
                 const std::vector<int64_t>& first_read, Tensor& scores) {
  std::vector<Tensor> ids;
  for (const size_t n : batch) ids.push_back(at::tensor(test.prompts[n].tokens, at::kLong));
  const BatchReads list = list_reads(test, batch, first_read);
  ForwardOptions options;
  options.output_from = list.from;
  const Tensor x =
      model.run_layers(model.embed(at::stack(ids).to(model.device())), 0, model.config().layers, options);
  const Tensor rows = x.flatten(0, 1).index_select(0, at::tensor(list.rows, at::kLong).to(model.device()));
  // Logits are the largest tensor: in pieces of about 100 MB on the CPU and 1 GB on a GPU.
  const double budget = model.device().is_cpu() ? 2.5e7 : 2.5e8;
  const auto piece =
      std::max<int64_t>(1, static_cast<int64_t>(budget / static_cast<double>(model.config().vocabulary)));
  for (int64_t first = 0; first < rows.size(0); first += piece) {
    const int64_t count = std::min(piece, rows.size(0) - first);
    const Tensor logits = model.unembed(rows.narrow(0, first, count).unsqueeze(0))[0].to(at::kFloat);
    const std::vector<const SuiteRead*> reads(list.reads.begin() + first, list.reads.begin() + first + count);
    const std::vector<int64_t> index(list.index.begin() + first, list.index.begin() + first + count);
    scores.index_copy_(0, at::tensor(index, at::kLong),
                       score_logits(logits, reads, test.score).to(at::kCPU, at::kDouble));
  }
}

// Reads of a prompt in one bin become one number.
BinScores gather_bins(const SuiteTest& test, const Tensor& scores) {
  BinScores bins(test.bins.size());
  const double* score = scores.data_ptr<double>();
  for (const SuitePrompt& prompt : test.prompts) {
    std::vector<double> total(bins.size()), count(bins.size());
    for (const SuiteRead& read : prompt.reads) total[read.bin] += *score++, count[read.bin] += 1;
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      if (count[bin] == 0) continue;
      bins[bin].push_back(test.all_reads ? double(total[bin] == count[bin]) : total[bin] / count[bin]);
    }
  }
  return bins;
}

}  // namespace

BinScores score_prompts(const Transformer& model, const SuiteTest& test, const ScoreOptions& options) {
  const at::NoGradGuard no_grad;
  Ranks alone;
  Ranks& ranks = options.ranks ? *options.ranks : alone;
  std::vector<int64_t> first_read;
  int64_t reads = 0;
  for (const SuitePrompt& prompt : test.prompts) {
    first_read.push_back(reads);
    reads += static_cast<int64_t>(prompt.reads.size());
  }
  const int64_t batch_tokens = options.batch_tokens > 0  ? options.batch_tokens
                               : model.device().is_cpu() ? 4096
                                                         : 65536;
  const std::vector<Batch> batches = make_batches(test.prompts, batch_tokens);
  Tensor scores = at::zeros({reads}, at::kDouble);
  // A round is one batch of every rank.
  for (size_t round = 0; round < batches.size(); round += static_cast<size_t>(ranks.count())) {
    const size_t own = round + static_cast<size_t>(ranks.rank());
    if (own < batches.size()) score_batch(model, test, batches[own], first_read, scores);
    int64_t done = 0;
    for (size_t n = round; n < std::min(batches.size(), round + static_cast<size_t>(ranks.count())); ++n)
      done += static_cast<int64_t>(batches[n].size());
    if (options.advance) options.advance(done);
    if (options.after_pass) options.after_pass();
  }
  ranks.sum(scores);  // with zeros: exact
  return gather_bins(test, scores);
}

}  // namespace openwork
