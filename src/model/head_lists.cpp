#include "model/head_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace openwork {
namespace {

using Heads = std::vector<int64_t>;

Heads count_up(int64_t count) {
  Heads heads(static_cast<size_t>(count));
  std::iota(heads.begin(), heads.end(), 0);
  return heads;
}

Heads read_layer(const ConfigReader& reader, const nlohmann::json& list, size_t layer, int64_t heads) {
  const auto refuse = [&] {
    reader.refuse(fmt::format("kept_heads[{}]", layer), printable(list.dump(), 60),
                  fmt::format("heads from 0 to {}, ascending", heads - 1));
  };
  Heads kept;
  if (!list.is_array()) refuse();
  for (const nlohmann::json& head : list) {
    if (!head.is_number_integer() || head.get<int64_t>() < 0 || head.get<int64_t>() >= heads) refuse();
    if (!kept.empty() && kept.back() >= head.get<int64_t>()) refuse();
    kept.push_back(head.get<int64_t>());
  }
  return kept;
}

}  // namespace

Heads kept_queries(const ModelConfig& config, int64_t layer) {
  return config.kept_heads.empty() ? count_up(config.heads)
                                   : config.kept_heads.at(static_cast<size_t>(layer));
}

Heads kept_key_values(const ModelConfig& config, int64_t layer) {
  Heads kept = kept_queries(config, layer);
  for (int64_t& head : kept) head /= config.group_size();
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept;
}

int64_t count_kept_heads(const ModelConfig& config) {
  int64_t count = 0;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    count += static_cast<int64_t>(kept_queries(config, layer).size());
  return count;
}

std::vector<Heads> read_kept_heads(const ConfigReader& reader, const ModelConfig& config) {
  const auto it = reader.json().find("kept_heads");
  if (it == reader.json().end() || it->is_null()) return {};
  if (!it->is_array() || static_cast<int64_t>(it->size()) != config.layers)
    reader.refuse("kept_heads", printable(it->dump(), 60), fmt::format("{} lists of heads", config.layers));
  const int64_t original = reader.positive("original_heads");
  if (original != config.heads)
    reader.refuse("original_heads", fmt::format("{}", original), fmt::format("{}", config.heads));
  std::vector<Heads> kept;
  for (size_t layer = 0; layer < it->size(); ++layer)
    kept.push_back(read_layer(reader, (*it)[layer], layer, config.heads));
  return kept;
}

ModelConfig with_all_heads(const ModelConfig& config) {
  ModelConfig original = config;
  original.kept_heads.clear();
  return original;
}

}  // namespace openwork
