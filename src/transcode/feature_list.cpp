#include "transcode/feature_list.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace openwork {
namespace {

std::string lower_case(std::string text) {
  for (char& letter : text) letter = static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter + 32 : letter);
  return text;
}

// The largest activation on any token that a place of `wanted` touches, over the peak's.
double activity_on(const FeatureContext& context, const std::string& wanted, const Tokenizer& tokenizer) {
  std::string text;
  std::vector<size_t> ends;  // of each token's text
  for (const int32_t id : context.tokens) ends.push_back((text += lower_case(tokenizer.piece(id))).size());
  double largest = 0;
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
    for (size_t n = 0; n < ends.size(); ++n) {
      const size_t begin = n == 0 ? 0 : ends[n - 1];
      if (begin < at + wanted.size() && ends[n] > at) largest = std::max(largest, context.activations[n]);
    }
  }
  const double peak = context.activations[static_cast<size_t>(context.peak)];
  return peak > 0 ? std::min(1.0, largest / peak) : 0;
}

double share_read(const FeatureDescription& description, const std::string& wanted,
                  const Tokenizer& tokenizer) {
  double sum = 0;
  for (const FeatureContext& context : description.contexts) sum += activity_on(context, wanted, tokenizer);
  return description.contexts.empty() ? 0 : sum / static_cast<double>(description.contexts.size());
}

double share_written(const FeatureDescription& description, const std::string& wanted,
                     const Tokenizer& tokenizer) {
  for (size_t n = 0; n < description.top_logits.size(); ++n) {
    const std::string piece = lower_case(tokenizer.piece(description.top_logits[n]));
    if (piece.find(wanted) != std::string::npos) return 1 / static_cast<double>(n + 1);
  }
  return 0;
}

Tensor of_length_one(const Tensor& matrix) {
  return matrix / at::linalg_vector_norm(matrix, 2, {-1}, true).clamp_min(1e-12);
}

// Everything that a chain of likenesses joins has the smallest of them as its root.
std::vector<int64_t> group_layer(const LayerTranscoder& layer) {
  const Tensor encoder = of_length_one(layer.encoder), decoder = of_length_one(layer.decoder.flatten(1));
  const Tensor alike =
      (at::matmul(encoder, encoder.t()) >= kAlike) & (at::matmul(decoder, decoder.t()) >= kAlike);
  const Tensor pairs = alike.triu(1).nonzero().cpu().contiguous();  // [pairs, 2], first < second
  std::vector<int64_t> root(static_cast<size_t>(layer.features()));
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int64_t n) {
    while (root[static_cast<size_t>(n)] != n) n = root[static_cast<size_t>(n)];
    return n;
  };
  for (int64_t n = 0; n < pairs.size(0); ++n) {
    const int64_t a = find(pairs.const_data_ptr<int64_t>()[2 * n]),
                  b = find(pairs.const_data_ptr<int64_t>()[2 * n + 1]);
    root[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }
  for (size_t n = 0; n < root.size(); ++n) root[n] = find(static_cast<int64_t>(n));
  return root;
}

// Each group's members behind the first of them in the list; what follows of a group is left out.
std::vector<FoundFeature> join_groups(std::vector<FoundFeature> found, const FeatureGroups& groups) {
  std::vector<FoundFeature> joined;
  std::vector<std::vector<bool>> seen(groups.size());
  for (size_t n = 0; n < groups.size(); ++n) seen[n].resize(groups[n].size());
  for (FoundFeature& one : found) {
    const std::vector<int64_t>& group = groups[static_cast<size_t>(one.layer)];
    const int64_t root = group[static_cast<size_t>(one.feature)];
    if (seen[static_cast<size_t>(one.layer)][static_cast<size_t>(root)]) continue;
    seen[static_cast<size_t>(one.layer)][static_cast<size_t>(root)] = true;
    for (size_t n = 0; n < group.size(); ++n) {
      if (group[n] == root && static_cast<int64_t>(n) != one.feature)
        one.alike.push_back(static_cast<int64_t>(n));
    }
    joined.push_back(std::move(one));
  }
  return joined;
}

}  // namespace

FeatureGroups group_features(const Transcoders& transcoders) {
  const at::NoGradGuard no_grad;
  FeatureGroups groups;
  for (const LayerTranscoder& layer : transcoders.layers) groups.push_back(group_layer(layer));
  return groups;
}

std::vector<FoundFeature> find_features(const Descriptions& descriptions, const FeatureGroups& groups,
                                        const Tokenizer& tokenizer, const FeatureQuery& query) {
  const auto layers = static_cast<int64_t>(descriptions.layers.size());
  if (query.layer >= layers) {
    fail_input(fmt::format("layer {} of {}", query.layer, layers), "--layer",
               fmt::format("give 0 to {}", layers - 1));
  }
  const std::string wanted = lower_case(query.search);
  std::vector<FoundFeature> found;
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (query.layer >= 0 && layer != query.layer) continue;
    const auto& features = descriptions.layers[static_cast<size_t>(layer)];
    for (size_t n = 0; n < features.size(); ++n) {
      FoundFeature one{.layer = layer, .feature = static_cast<int64_t>(n), .alike = {}};
      if (!wanted.empty()) {
        one.reads = share_read(features[n], wanted, tokenizer);
        one.writes = share_written(features[n], wanted, tokenizer);
        if (one.reads + one.writes == 0) continue;
      }
      found.push_back(std::move(one));
    }
  }
  const auto density = [&](const FoundFeature& one) {
    return descriptions.layers[static_cast<size_t>(one.layer)][static_cast<size_t>(one.feature)].density;
  };
  std::stable_sort(found.begin(), found.end(), [&](const FoundFeature& a, const FoundFeature& b) {
    const double first = a.reads + a.writes, second = b.reads + b.writes;
    return first != second ? first > second : density(a) > density(b);
  });
  return join_groups(std::move(found), groups);
}

}  // namespace openwork
